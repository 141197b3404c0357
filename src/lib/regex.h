/*
 * Regular expressions over UTF-8, behind the regex library (PCRE2, with Unicode properties).
 *
 * A compiled expression is immutable and shared by any number of threads. A matcher holds the state of one
 * search; each thread (or call) has its own, and it serves any expression.
 *
 * Matching uses the library's just-in-time compiler where the system allows it and its interpreter where
 * not; results are equal. Neither recurses on the thread's stack by the length of the text, and both give up
 * after a number of steps in proportion to the text, so that no pair of expression and text runs for ever.
 */
#ifndef SLUICE_LIB_REGEX_H
#define SLUICE_LIB_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct regex;
struct regex_matcher;

enum regex_syntax {
    REGEX_SYNTAX_PERL,    /* the library's own, close to Perl's */
    REGEX_SYNTAX_LITERAL, /* every character stands for itself */
};

struct regex_span {
    size_t start, end; /* bytes */
};

/*
 * Compiles `length` bytes of UTF-8, at most 64 KiB. `what` names the expression in the error, which also
 * says where it is wrong (BAD_FORMAT). Owned: regex_destroy.
 */
enum status regex_create(const char *pattern, size_t length, enum regex_syntax syntax, const char *what,
                         struct regex **out);
void regex_destroy(struct regex **regex);

/* Owned: regex_matcher_destroy. */
enum status regex_matcher_create(struct regex_matcher **out);
void regex_matcher_destroy(struct regex_matcher **matcher);

/*
 * Finds the leftmost match that starts at `offset` or later. `text` must be valid UTF-8 and `offset` the
 * start of a character (or `length`): the caller checks this once, the search does not. `*out` is set if
 * `*is_found`; a match may be empty. OUT_OF_RANGE if the search takes too many steps or too much memory.
 */
enum status regex_find(const struct regex *regex, struct regex_matcher *matcher, const char *text,
                       size_t length, size_t offset, struct regex_span *out, bool *is_found);

#endif
