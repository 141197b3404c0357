/*
 * A growing byte string.
 *
 * Appending never reports: a failed allocation is remembered and string_buffer_check says so at the end,
 * so that code which builds text reads as text. One thread at a time.
 */
#ifndef SLUICE_BASE_STRING_BUFFER_H
#define SLUICE_BASE_STRING_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct string_buffer {
    char *data; /* NUL-terminated once anything was appended; NULL before */
    size_t length;
    size_t capacity;
    bool is_failed;
};

/* Frees the bytes; the buffer is empty and can be used again. A zeroed struct is an empty buffer. */
void string_buffer_deinit(struct string_buffer *buffer);

/* Empties the buffer and keeps its memory. */
void string_buffer_clear(struct string_buffer *buffer);

void string_buffer_append(struct string_buffer *buffer, const char *bytes, size_t length);
void string_buffer_append_text(struct string_buffer *buffer, const char *text);
void string_buffer_append_char(struct string_buffer *buffer, char byte);
void string_buffer_append_format(struct string_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Drops the first `length` bytes (at most all). */
void string_buffer_drop_front(struct string_buffer *buffer, size_t length);

/* Drops the last `length` bytes (at most all). */
void string_buffer_drop_back(struct string_buffer *buffer, size_t length);

/* The bytes as a C string: "" if empty. Valid until the next change. */
const char *string_buffer_text(const struct string_buffer *buffer);

/* STATUS_OUT_OF_MEMORY if any append failed. */
enum status string_buffer_check(const struct string_buffer *buffer);

#endif
