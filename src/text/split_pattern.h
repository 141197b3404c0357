/*
 * Translates the regular expressions of tokenizer.json, which are written for Oniguruma (Ruby syntax), to
 * Perl's dialect.
 *
 * The two agree on most of what these files use. `\s` differs by one character (U+180E), so it is written as
 * a property; categories get the characters that the regex library's Unicode lacks; whatever else could mean
 * another thing here is refused by name rather than split differently.
 */
#ifndef SLUICE_TEXT_SPLIT_PATTERN_H
#define SLUICE_TEXT_SPLIT_PATTERN_H

#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"

/* Appends the translation to `out`. `what` names the pattern in the error (UNSUPPORTED, BAD_FORMAT). */
enum status split_pattern_translate(const char *pattern, size_t length, const char *what,
                                    struct string_buffer *out);

#endif
