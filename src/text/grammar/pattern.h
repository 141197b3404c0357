/*
 * Regular expressions in a subset that automata can follow: characters and classes, `.` (all but a newline),
 * \d \w \s in ASCII and their opposites, groups, alternatives, greedy and lazy quantifiers, ^ and $. What
 * looks around, remembers or counts on word boundaries is refused by name, as is what would be too large.
 */
#ifndef SLUICE_TEXT_GRAMMAR_PATTERN_H
#define SLUICE_TEXT_GRAMMAR_PATTERN_H

#include "text/grammar/expression.h"
#include "text/grammar/symbol_dfa.h"

enum pattern_extent {
    PATTERN_WHOLE, /* the whole text matches */
    PATTERN_PART,  /* some part of it does, as in JSON Schema */
};

/*
 * Parses UTF-8; the tree lives in the arena. BAD_FORMAT or UNSUPPORTED with a sentence that starts with
 * `what` and names the place.
 */
enum status pattern_parse(const char *pattern, size_t length, const char *what, struct arena *arena,
                          struct expression **out);

/* The automaton over code points. Owned: dfa_deinit. */
enum status pattern_compile(const char *pattern, size_t length, enum pattern_extent extent, const char *what,
                            struct dfa *out);

enum { PATTERN_STATES_MAX = 50000 };

#endif
