/*
 * A nondeterministic automaton over symbols, built piece by piece.
 *
 * A symbol is a number: a code point while a pattern is worked out, a byte in a grammar, and beyond both the
 * control tokens and the calls of rules that grammars name. Builders append: each takes the state it starts
 * from and returns the state behind what it added, so that a sequence reads as one. A state that a builder
 * starts from must not be entered again from behind it: nfa_add_repeat makes a fresh one.
 *
 * Building never reports. Memory that ran out and limits that were crossed are remembered, states are then
 * arbitrary but valid, and nfa_check says so at the end. One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_SYMBOL_NFA_H
#define SLUICE_TEXT_GRAMMAR_SYMBOL_NFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SYMBOL_CODE_POINTS = 0x110000,
    SYMBOL_CONTROL = 0x110000, /* + enum control_token */
    SYMBOL_CALL = 0x200000,    /* + index of a rule */
    /* Edges that take no symbol; the latter two only at the text's ends. */
    NFA_EMPTY = 0x70000000,
    NFA_AT_START,
    NFA_AT_END,
    NFA_NONE = 0x7FFFFFFF, /* no edge */
};

struct nfa_edge {
    uint32_t first, last; /* symbols; NFA_EMPTY and so on in both */
    uint32_t target;
    uint32_t next; /* edge of the same state, or NFA_NONE */
};

struct nfa {
    uint32_t *first_edges; /* by state */
    uint32_t state_count, state_capacity;
    struct nfa_edge *edges;
    uint32_t edge_count, edge_capacity;
    uint32_t state_limit;
    bool is_out_of_memory;
    bool is_over_limit;
};

/* An automaton with one state, 0. */
void nfa_init(struct nfa *nfa, uint32_t state_limit);
void nfa_deinit(struct nfa *nfa);

/* OUT_OF_MEMORY, or UNSUPPORTED with a sentence that starts with `what` if it became too large. */
enum status nfa_check(const struct nfa *nfa, const char *what);

uint32_t nfa_add_state(struct nfa *nfa);
void nfa_add_edge(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target);
void nfa_add_empty(struct nfa *nfa, uint32_t from, uint32_t target);

/* One symbol of a range. */
uint32_t nfa_add_range(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last);

/* The bytes, each a symbol. */
uint32_t nfa_add_bytes(struct nfa *nfa, uint32_t from, const char *bytes, size_t length);
uint32_t nfa_add_text(struct nfa *nfa, uint32_t from, const char *text);

/* Adds something behind a state; returns the state behind it. */
typedef uint32_t nfa_builder(struct nfa *nfa, uint32_t from, const void *context);

enum { NFA_REPEAT_MAX = 100000 }; /* highest count of a repetition */

/*
 * `minimum` to `maximum` copies (maximum UINT32_MAX: any number). Counts above NFA_REPEAT_MAX put the
 * automaton over its limit.
 */
uint32_t nfa_add_repeat(struct nfa *nfa, uint32_t from, nfa_builder *build, const void *context,
                        uint32_t minimum, uint32_t maximum);

#endif
