/*
 * Stop strings on a stream of text: what may become one is held back, what cannot is released at once.
 *
 * The text ends where the first stop string is complete, wherever pieces are cut; of several that are
 * complete at the same byte the longest counts. Stop strings start at a character, so a held tail does too:
 * released text never ends inside a character if what comes in does not. One thread at a time.
 */
#ifndef SLUICE_TEXT_STOP_TEXT_H
#define SLUICE_TEXT_STOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"

/* `length` > 0 bytes of UTF-8. */
struct stop_string {
    const char *bytes;
    size_t length;
};

struct stop_matcher;

struct stop_text {
    struct stop_matcher *matchers; /* one for each stop string, in their order */
    size_t count;
    struct string_buffer held;
    bool is_stopped;
    size_t stopped_by; /* index of the stop string, if stopped */
};

/* The strings are borrowed; none: everything is released at once. */
enum status stop_text_init(struct stop_text *stop, const struct stop_string *strings, size_t count);

/* Frees all; a zeroed struct has no stop strings. */
void stop_text_deinit(struct stop_text *stop);

/*
 * Takes a piece and appends what can be shown to `out` (NULL: nobody wants it). After a stop string, which is
 * not shown, nothing is taken any more.
 */
void stop_text_push(struct stop_text *stop, const char *text, size_t length, struct string_buffer *out);

/* Appends what was held back: the text has ended, or what follows does not join it. */
void stop_text_finish(struct stop_text *stop, struct string_buffer *out);

#endif
