/*
 * Characters that Unicode 15 and 16 assigned, by general category.
 *
 * The regex library may know an older Unicode (PCRE2 10.42: version 14) than the tokenizer that a model was
 * trained with; without these, the newer letters and emoji would be split differently. Any thread.
 */
#ifndef SLUICE_TEXT_UNICODE_ADDITIONS_H
#define SLUICE_TEXT_UNICODE_ADDITIONS_H

#include <stddef.h>

#include "base/string_buffer.h"

/*
 * Appends the newer characters of a general category ("L", "Lo") as ranges of a regular expression's class.
 * Returns their number, 0 if there are none.
 */
size_t unicode_additions_append_ranges(const char *category, size_t length, struct string_buffer *out);

#endif
