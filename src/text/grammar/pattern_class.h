/* The parts of patterns that grammars have too: escapes, classes in brackets, quantifiers. */
#ifndef SLUICE_TEXT_GRAMMAR_PATTERN_CLASS_H
#define SLUICE_TEXT_GRAMMAR_PATTERN_CLASS_H

#include "text/grammar/expression.h"

/* Text being parsed. */
struct pattern_reader {
    const char *start, *at, *end;
    const char *what; /* in errors */
    struct arena *arena;
};

/* How many bytes were read, for errors. */
int pattern_offset(const struct pattern_reader *reader);

/* The next character, well-formed UTF-8; the reader is not at its end. */
enum status pattern_read_character(struct pattern_reader *reader, uint32_t *out);

/* What follows a backslash outside brackets, as a tree. */
enum status pattern_read_escape(struct pattern_reader *reader, struct expression **out);

/* A class; the opening bracket has been read. */
enum status pattern_read_class(struct pattern_reader *reader, struct expression **out);

/* *, +, ? or counts in braces; false, and nothing read, if there is none. */
bool pattern_take_quantifier(struct pattern_reader *reader, uint32_t *minimum, uint32_t *maximum);

#endif
