/*
 * Stop strings on a stream of text: what may become one is held back, what cannot is released at once.
 *
 * The strings start at a character, so a held tail does too: released text never ends inside a character if
 * what comes in does not. One thread at a time.
 */
#ifndef SLUICE_CLI_STOP_TEXT_H
#define SLUICE_CLI_STOP_TEXT_H

#include <stdbool.h>

#include "base/options.h"
#include "base/string_buffer.h"

struct stop_text {
    const struct option_list *stops; /* borrowed */
    struct string_buffer held;
    bool is_stopped;
};

void stop_text_init(struct stop_text *stop, const struct option_list *stops);
void stop_text_deinit(struct stop_text *stop);

/* Takes a piece and appends what can be shown to `out`. After a stop string nothing is taken any more. */
void stop_text_push(struct stop_text *stop, const char *text, size_t length, struct string_buffer *out);

/* Appends what was held back: the text has ended. */
void stop_text_finish(struct stop_text *stop, struct string_buffer *out);

#endif
