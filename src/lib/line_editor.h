/*
 * Lines that a person types, or that come through a pipe. Behind the line-editing library (libedit).
 *
 * On a terminal lines are edited and remembered, and a paste of several lines is one line with newlines in
 * it. A line that ends in a backslash goes on in the next one; the backslash becomes a newline. Elsewhere
 * lines are read as they come, by the same rule. Lines are bytes: a terminal's are UTF-8, a pipe's anything.
 *
 * Creating sets the process's character type to UTF-8, which the library takes widths of characters from.
 * One editor per process, one thread.
 */
#ifndef SLUICE_LIB_LINE_EDITOR_H
#define SLUICE_LIB_LINE_EDITOR_H

#include <stdbool.h>

#include "base/status.h"
#include "base/string_buffer.h"

struct line_editor;

enum line_kind {
    LINE_TEXT,
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is gone */
    LINE_END,         /* Ctrl-D on an empty line, or the end of the input */
};

struct line_editor_options {
    const char *prompt;              /* borrowed */
    const char *continuation_prompt; /* borrowed; before the lines after a backslash */
    const char *history_file;        /* borrowed; on a terminal, lines are kept there; NULL: nowhere */
};

/* Whether a person types: standard input and one of the output streams are terminals. */
bool line_editor_has_person(void);

/*
 * Edits lines if a person types. BAD_FORMAT if the history file
 * holds something else; a missing one is made later. Owned: line_editor_destroy.
 */
enum status line_editor_create(const struct line_editor_options *options, struct line_editor **out);

/* Gives the terminal back, frees and nulls. NULL inside is allowed. */
void line_editor_destroy(struct line_editor **editor);

/* Puts the next line into `line`, without its end, in place of what was there. */
enum status line_editor_read(struct line_editor *editor, struct string_buffer *line, enum line_kind *kind);

/* Adds a line to the history and writes its file, for the user's eyes only. IO if that fails. */
enum status line_editor_remember(struct line_editor *editor, const char *line);

#endif
