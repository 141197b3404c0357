/* Doubling storage; one spare byte holds the terminator. */
#include "base/string_buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void string_buffer_deinit(struct string_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct string_buffer){0};
}

void string_buffer_clear(struct string_buffer *buffer) {
    buffer->length = 0;
    buffer->is_failed = false;
    if (buffer->data != NULL) {
        buffer->data[0] = '\0';
    }
}

/* Makes room for `extra` bytes and the terminator. */
static bool reserve(struct string_buffer *buffer, size_t extra) {
    if (buffer->is_failed || extra > SIZE_MAX / 4 - buffer->length) {
        buffer->is_failed = true;
        return false;
    }
    size_t needed = buffer->length + extra + 1;
    if (needed <= buffer->capacity) {
        return true;
    }
    size_t capacity = buffer->capacity == 0 ? 64 : buffer->capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *data = realloc(buffer->data, capacity);
    if (data == NULL) {
        buffer->is_failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void string_buffer_append(struct string_buffer *buffer, const char *bytes, size_t length) {
    if (!reserve(buffer, length)) {
        return;
    }
    if (length > 0) {
        memcpy(buffer->data + buffer->length, bytes, length);
    }
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void string_buffer_append_text(struct string_buffer *buffer, const char *text) {
    string_buffer_append(buffer, text, strlen(text));
}

void string_buffer_append_char(struct string_buffer *buffer, char byte) {
    string_buffer_append(buffer, &byte, 1);
}

void string_buffer_append_format(struct string_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buffer->is_failed = true;
    } else if (reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void string_buffer_drop_front(struct string_buffer *buffer, size_t length) {
    if (length >= buffer->length) {
        length = buffer->length;
    }
    if (length > 0) {
        memmove(buffer->data, buffer->data + length, buffer->length - length + 1);
        buffer->length -= length;
    }
}

void string_buffer_drop_back(struct string_buffer *buffer, size_t length) {
    if (buffer->length > 0) {
        buffer->length -= length < buffer->length ? length : buffer->length;
        buffer->data[buffer->length] = '\0';
    }
}

const char *string_buffer_text(const struct string_buffer *buffer) {
    return buffer->data == NULL ? "" : buffer->data;
}

enum status string_buffer_check(const struct string_buffer *buffer) {
    CHECK(!buffer->is_failed, STATUS_OUT_OF_MEMORY, "out of memory while building a text");
    return STATUS_OK;
}
