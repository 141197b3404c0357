/*
 * An answer on the screen while it comes: reasoning set off from content.
 *
 * Where the stream is a terminal reasoning is dimmed, unless NO_COLOR is set, and control characters that a
 * model may write are shown as U+FFFD: a terminal must not obey what it says. Elsewhere reasoning stands
 * between its tags and bytes go out as they are. Text is whole characters. One thread.
 */
#ifndef SLUICE_CLI_ANSWER_VIEW_H
#define SLUICE_CLI_ANSWER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/string_buffer.h"

struct answer_view {
    FILE *stream; /* borrowed */
    bool is_terminal;
    bool is_styled;
    bool is_in_reasoning;
    bool is_at_line_start;          /* nothing was shown since the last newline */
    struct string_buffer printable; /* scratch */
};

/* What dims text on a terminal, and what ends it. */
extern const char ANSWER_VIEW_DIM[];
extern const char ANSWER_VIEW_PLAIN[];

/* Whether text on this stream may be dimmed or coloured: a terminal, and NO_COLOR is not set. */
bool answer_view_has_style(FILE *stream);

void answer_view_init(struct answer_view *view, FILE *stream);
void answer_view_deinit(struct answer_view *view);

void answer_view_show_reasoning(struct answer_view *view, const char *text, size_t length);

/* Ends the reasoning if it was on the screen; an empty text does nothing else. */
void answer_view_show_content(struct answer_view *view, const char *text, size_t length);

/* Ends the reasoning and, unless the screen is at the start of a line already, the line. */
void answer_view_finish(struct answer_view *view);

#endif
