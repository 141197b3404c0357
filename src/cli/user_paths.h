/* Where files of a person's are, by the environment. */
#ifndef SLUICE_CLI_USER_PATHS_H
#define SLUICE_CLI_USER_PATHS_H

#include "base/status.h"
#include "base/string_buffer.h"

/*
 * Appends the path of the history of lines and makes its folder, for the user's eyes only:
 * sluice/chat_history below XDG_STATE_HOME, or below .local/state at home. NOT_FOUND if neither is known, IO
 * if it cannot be made.
 */
enum status user_paths_find_history(struct string_buffer *path);

/* Appends a path as typed, with "~/" at its start in the place of the home folder. */
void user_paths_append_typed(struct string_buffer *path, const char *text);

#endif
