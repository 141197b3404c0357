/* The two halves of ebnf.c: reading text into rules, and compiling them. */
#ifndef SLUICE_TEXT_GRAMMAR_EBNF_INTERNAL_H
#define SLUICE_TEXT_GRAMMAR_EBNF_INTERNAL_H

#include "text/grammar/expression.h"

enum { EBNF_RULES_MAX = 5000 };

struct ebnf_rule {
    const char *name;
    struct expression *expression; /* NULL while it is used but not defined */
    int line;                      /* of its first use or definition */
};

struct ebnf_rules {
    struct ebnf_rule rules[EBNF_RULES_MAX];
    uint32_t count;
};

/* Reads all rules; every one that is used is defined. Everything lives in the arena. */
enum status ebnf_parse(const char *text, size_t length, struct arena *arena, struct ebnf_rules *out);

#endif
