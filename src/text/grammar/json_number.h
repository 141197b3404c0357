/*
 * JSON numbers: all of them, and those within bounds, decided digit by digit and exact.
 *
 * Numbers with a bound are written without an exponent; a minus sign stands in front of zero only without
 * bounds.
 */
#ifndef SLUICE_TEXT_GRAMMAR_JSON_NUMBER_H
#define SLUICE_TEXT_GRAMMAR_JSON_NUMBER_H

#include "lib/json.h"
#include "text/grammar/symbol_nfa.h"

enum { NUMBER_DIGITS_MAX = 64 };

struct number_bound {
    bool is_given;
    bool is_exclusive;
    bool is_negative;                     /* false for zero */
    char integer[NUMBER_DIGITS_MAX + 1];  /* digits without leading zeros, "0" for none */
    char fraction[NUMBER_DIGITS_MAX + 1]; /* digits without trailing zeros */
};

struct number_range {
    struct number_bound lower, upper;
    bool is_integer;
};

/* Reads a JSON number as a bound; false if it has more digits than fit. */
bool number_bound_read(const struct json *value, bool is_exclusive, struct number_bound *out);

/* Narrows a bound: the tighter of both stays. */
void number_bound_tighten(struct number_bound *bound, const struct number_bound *other, bool is_lower);

/* Whether the value, an integer or real, lies within. */
bool number_range_contains(const struct number_range *range, const struct number_bound *value);

/* Appends the numbers of the range. */
uint32_t json_number_add(struct nfa *nfa, uint32_t from, const struct number_range *range);

#endif
