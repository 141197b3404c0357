/*
 * UTF-8, one character at a time.
 *
 * Ill-formed bytes are grouped by Unicode's recommended practice (section 3.9, "maximal subparts"): the
 * longest prefix of some well-formed character is one fault, any other byte is a fault by itself. Any
 * thread; nothing is allocated but by utf8_append_lossy.
 */
#ifndef SLUICE_TEXT_UTF8_H
#define SLUICE_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/string_buffer.h"

enum utf8_kind {
    UTF8_CHARACTER,  /* a well-formed character */
    UTF8_INVALID,    /* a maximal subpart of an ill-formed sequence: stands for one U+FFFD */
    UTF8_INCOMPLETE, /* the bytes end within a character that more bytes could complete */
};

struct utf8_step {
    enum utf8_kind kind;
    uint32_t code_point; /* of UTF8_CHARACTER */
    size_t length;       /* bytes, at least 1 */
};

enum { UTF8_CHARACTER_BYTES_MAX = 4, UTF8_REPLACEMENT_BYTES = 3 };

/* U+FFFD */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Looks at the first character of `length` > 0 bytes. */
struct utf8_step utf8_next(const char *bytes, size_t length);

/* The number of leading bytes that are well-formed characters; `length` if the whole text is UTF-8. */
size_t utf8_valid_length(const char *bytes, size_t length);

/* Writes a code point below 0x110000 that is no surrogate; returns the number of bytes, 1 to 4. */
size_t utf8_encode(uint32_t code_point, char out[UTF8_CHARACTER_BYTES_MAX]);

/* Appends the bytes with every ill-formed part replaced by U+FFFD. */
void utf8_append_lossy(struct string_buffer *out, const char *bytes, size_t length);

#endif
