/* What several commands read: files and standard input, lists of token ids. */
#ifndef SLUICE_CLI_CLI_INPUT_H
#define SLUICE_CLI_CLI_INPUT_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "text/token_list.h"

/* Appends a whole file, or standard input for "-": at most 1 GiB. */
enum status cli_read_all(const char *path, struct string_buffer *out);

/*
 * Appends token ids from text: numbers with blanks or commas between them, a JSON array, or a JSON object
 * with an array "token_ids".
 */
enum status cli_parse_token_ids(const char *text, size_t length, struct token_list *out);

#endif
