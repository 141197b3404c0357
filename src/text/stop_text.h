/*
 * Stop strings on a stream of text: what may become one is held back, what cannot is released at once.
 *
 * The strings start at a character, so a held tail does too: released text never ends inside a character if
 * what comes in does not. One thread at a time.
 */
#ifndef SLUICE_TEXT_STOP_TEXT_H
#define SLUICE_TEXT_STOP_TEXT_H

#include <stdbool.h>

#include "base/string_buffer.h"

/* A text at whose beginning an answer ends. Empty ones never match. */
struct stop_string {
    const char *bytes;
    size_t length;
};

struct stop_text {
    const struct stop_string *stops; /* borrowed */
    size_t stop_count;
    struct string_buffer held;
    const struct stop_string *found; /* the stop string that came, NULL before */
};

void stop_text_init(struct stop_text *stop, const struct stop_string *stops, size_t stop_count);
void stop_text_deinit(struct stop_text *stop);

/*
 * Takes a piece and appends what can be shown to `out` (NULL: nobody wants it). After a stop string nothing
 * is taken any more.
 */
void stop_text_push(struct stop_text *stop, const char *text, size_t length, struct string_buffer *out);

/* Appends what was held back: the text has ended. */
void stop_text_finish(struct stop_text *stop, struct string_buffer *out);

#endif
