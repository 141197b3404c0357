/*
 * Grammars: rules that call each other, each an automaton over bytes, control tokens and calls.
 *
 * All sources (JSON Schema, patterns, choices, grammar files, tool calls) are compiled to this one form.
 * Where rules nest without end a stack is needed to follow it (grammar_automaton.h); within a rule every
 * symbol leads to one state. A grammar is immutable; any thread may read it.
 *
 * No state is a dead end: what a rule calls can be completed, and no rule calls itself before it has read a
 * byte (left recursion is refused, calls of rules that accept the empty text are skipped as well as made).
 */
#ifndef SLUICE_TEXT_GRAMMAR_GRAMMAR_H
#define SLUICE_TEXT_GRAMMAR_GRAMMAR_H

#include "text/control_token.h"
#include "text/grammar/symbol_nfa.h"

enum {
    GRAMMAR_STATES_MAX = 400000, /* of all rules together */
    GRAMMAR_BYTES = 256,         /* symbols below are bytes */
    GRAMMAR_SYMBOLS_MAX = GRAMMAR_BYTES + CONTROL_TOKEN_COUNT,
    GRAMMAR_END = 0, /* the state behind the whole text */
};

/* symbols: bytes, then control tokens */
struct grammar_edge {
    uint16_t first, last;
    uint32_t target;
};

struct grammar_call {
    uint32_t rule;
    uint32_t target; /* state behind the call */
};

struct grammar_state {
    uint32_t edge_offset, edge_count; /* sorted, disjoint */
    uint32_t call_offset, call_count;
    bool is_accepting; /* the rule may end here */
    bool is_last;      /* it may do nothing else */
};

struct grammar_rule {
    uint32_t start; /* state */
    uint32_t rank;  /* higher than of the rules that call it before they read anything */
};

struct grammar {
    struct grammar_state *states; /* GRAMMAR_END is the first */
    struct grammar_edge *edges;
    struct grammar_call *calls;
    struct grammar_rule *rules;
    uint32_t state_count, edge_count, call_count, rule_count;
    uint32_t root;                   /* rule */
    uint32_t outer_first, outer_end; /* states of the root rule, if nothing calls it; none: 0, 0 */
    bool has_controls;
    bool accepts_empty;
};

/* Frees and nulls. */
void grammar_destroy(struct grammar **grammar);

size_t grammar_bytes(const struct grammar *grammar);

#endif
