/*
 * Knuth, Morris and Pratt, once for each stop string: how much of it the text ends with. So a byte costs a
 * few steps whatever came before, and exactly the longest tail that may become a stop string is held.
 */
#include "text/stop_text.h"

#include <stdlib.h>

struct stop_matcher {
    const char *bytes; /* borrowed */
    size_t length;
    size_t matched;  /* bytes of it that the text ends with */
    size_t *borders; /* by length of a beginning: its longest proper beginning that is also its end */
};

/* How much of the string the text ends with once `byte` has been added; `matched` is below the length. */
static size_t extend(const struct stop_matcher *matcher, size_t matched, char byte) {
    while (matched > 0 && matcher->bytes[matched] != byte) {
        matched = matcher->borders[matched];
    }
    return matched + (matcher->bytes[matched] == byte);
}

static enum status init_matcher(struct stop_matcher *matcher, const struct stop_string *string) {
    *matcher = (struct stop_matcher){.bytes = string->bytes, .length = string->length};
    matcher->borders = calloc(string->length + 1, sizeof *matcher->borders);
    CHECK_MEMORY(matcher->borders);
    for (size_t i = 1; i < string->length; i++) {
        matcher->borders[i + 1] = extend(matcher, matcher->borders[i], string->bytes[i]);
    }
    return STATUS_OK;
}

enum status stop_text_init(struct stop_text *stop, const struct stop_string *strings, size_t count) {
    *stop = (struct stop_text){.count = 0};
    if (count == 0) {
        return STATUS_OK;
    }
    stop->matchers = calloc(count, sizeof *stop->matchers);
    CHECK_MEMORY(stop->matchers);
    for (; stop->count < count; stop->count++) {
        enum status status = init_matcher(&stop->matchers[stop->count], &strings[stop->count]);
        if (status != STATUS_OK) {
            stop_text_deinit(stop);
            return error_forward(status, ERROR_HERE);
        }
    }
    return STATUS_OK;
}

void stop_text_deinit(struct stop_text *stop) {
    for (size_t i = 0; i < stop->count; i++) {
        free(stop->matchers[i].borders);
    }
    free(stop->matchers);
    string_buffer_deinit(&stop->held);
    *stop = (struct stop_text){.count = 0};
}

/* Adds a byte to all matches; returns the length of the longest stop string that it completes, or 0. */
static size_t take_byte(struct stop_text *stop, char byte) {
    size_t complete = 0;
    for (size_t i = 0; i < stop->count; i++) {
        struct stop_matcher *matcher = &stop->matchers[i];
        matcher->matched = extend(matcher, matcher->matched, byte);
        if (matcher->matched == matcher->length && matcher->length > complete) {
            complete = matcher->length;
            stop->stopped_by = i;
        }
    }
    return complete;
}

static size_t held_length(const struct stop_text *stop) {
    size_t longest = 0;
    for (size_t i = 0; i < stop->count; i++) {
        longest = stop->matchers[i].matched > longest ? stop->matchers[i].matched : longest;
    }
    return longest;
}

static void release(struct string_buffer *out, const char *text, size_t length) {
    if (out != NULL) {
        string_buffer_append(out, text, length);
    }
}

void stop_text_push(struct stop_text *stop, const char *text, size_t length, struct string_buffer *out) {
    if (stop->is_stopped) {
        return;
    }
    if (stop->count == 0) {
        release(out, text, length);
        return;
    }
    size_t complete = 0;
    size_t taken = 0;
    while (!stop->is_stopped && taken < length) {
        complete = take_byte(stop, text[taken++]);
        stop->is_stopped = complete > 0;
    }
    string_buffer_append(&stop->held, text, taken);
    size_t kept = complete > 0 ? complete : held_length(stop);
    if (stop->held.is_failed || kept > stop->held.length) {
        if (out != NULL) {
            out->is_failed = true;
        }
        return;
    }
    release(out, string_buffer_text(&stop->held), stop->held.length - kept);
    string_buffer_drop_front(&stop->held, complete > 0 ? stop->held.length : stop->held.length - kept);
}

void stop_text_finish(struct stop_text *stop, struct string_buffer *out) {
    string_buffer_append(out, string_buffer_text(&stop->held), stop->held.length);
    string_buffer_clear(&stop->held);
    for (size_t i = 0; i < stop->count; i++) {
        stop->matchers[i].matched = 0;
    }
}
