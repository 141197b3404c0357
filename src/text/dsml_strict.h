/*
 * The official output grammar, without any recovery (spec deepseek-v4 8.8).
 *
 * Works on the whole text of a completion; the control tokens in it count by their text. Any thread.
 */
#ifndef SLUICE_TEXT_DSML_STRICT_H
#define SLUICE_TEXT_DSML_STRICT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/output_calls.h"

/*
 * Parses a completion that ends with the end mark. Reports reasoning, content and calls through `calls` and
 * its writer; what was reported before an error must be thrown away. BAD_FORMAT says what is malformed.
 */
enum status dsml_parse_strict(const char *text, size_t length, bool is_thinking, struct output_calls *calls);

#endif
