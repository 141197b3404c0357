/*
 * JSON as text: what the output parser needs without building values, so that numbers of any size and
 * repeated keys stay as the model wrote them. Any thread; nothing is kept.
 */
#ifndef SLUICE_TEXT_JSON_TEXT_H
#define SLUICE_TEXT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/string_buffer.h"

/* Whether the bytes (UTF-8) are one JSON value, blanks around it allowed; depth at most 512. */
bool json_text_is_valid(const char *bytes, size_t length);

/* Appends the inside of a JSON string: the bytes (whole UTF-8 characters) with what must be escaped escaped.
 */
void json_text_append_escaped(struct string_buffer *out, const char *bytes, size_t length);

#endif
