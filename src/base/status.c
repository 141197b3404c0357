/* The status list's names and texts, and one error record per thread. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct error_record last_error;

const char *status_name(enum status status) {
    switch (status) {
#define X(name, value, text) \
    case STATUS_##name:      \
        return #name;
        SLUICE_STATUS_LIST(X)
#undef X
    }
    return "UNKNOWN";
}

const char *status_text(enum status status) {
    switch (status) {
#define X(name, value, text) \
    case STATUS_##name:      \
        return text;
        SLUICE_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *sluice_status_text(enum sluice_status status) {
    return status_text((enum status)status);
}

const char *sluice_last_error(void) {
    return last_error.message;
}

/* Bytes of the UTF-8 character that starts with `lead`. */
static size_t character_bytes(unsigned char lead) {
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Drops the bytes of a UTF-8 character that the cut at `length` left incomplete. */
static void cut_at_character(char *text, size_t length) {
    size_t start = length;
    while (start > 0 && length - start < 4 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) {
        start--;
    }
    if (start > 0 && character_bytes((unsigned char)text[start - 1]) > length - start + 1) {
        text[start - 1] = '\0';
    }
}

enum status error_raise(enum status status, struct error_frame frame, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    /* The arguments may point into the record being replaced. */
    char message[ERROR_MESSAGE_BYTES];
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length >= ERROR_MESSAGE_BYTES) {
        cut_at_character(message, ERROR_MESSAGE_BYTES - 1);
    }
    memcpy(last_error.message, message, sizeof message);
    last_error.status = status;
    last_error.frames[0] = frame;
    last_error.frame_count = 1;
    return status;
}

enum status error_forward(enum status status, struct error_frame frame) {
    if (last_error.frame_count < ERROR_FRAMES_MAX) {
        last_error.frames[last_error.frame_count++] = frame;
    }
    return status;
}

const struct error_record *error_last(void) {
    return &last_error;
}
