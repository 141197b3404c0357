/*
 * Deterministic automata over symbols (symbol_nfa.h): what a text may be, decided symbol by symbol.
 *
 * State 0 is the start. Every state lies on a way from the start to an accepting one, so a text that was
 * followed so far can always be completed; an automaton without states accepts nothing at all. Ranges of a
 * state are sorted and disjoint, calls apart: several edges may call the same rule. Any thread may read one.
 */
#ifndef SLUICE_TEXT_GRAMMAR_SYMBOL_DFA_H
#define SLUICE_TEXT_GRAMMAR_SYMBOL_DFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/grammar/symbol_nfa.h"

struct dfa_edge {
    uint32_t first, last; /* symbols */
    uint32_t target;
};

struct dfa {
    uint32_t state_count;
    uint32_t *edge_offsets; /* state_count + 1 of them */
    struct dfa_edge *edges;
    bool *is_accepting;
};

void dfa_deinit(struct dfa *dfa);

/*
 * The automaton of what leads from `start` to `end`. UNSUPPORTED, with a sentence that starts with `what`, if
 * it has more than `state_limit` states or takes too long to build. Owned: dfa_deinit.
 */
enum status dfa_determinize(const struct nfa *nfa, uint32_t start, uint32_t end, uint32_t state_limit,
                            const char *what, struct dfa *out);

/* What both accept. UNSUPPORTED beyond `state_limit`. Owned: dfa_deinit. */
enum status dfa_intersect(const struct dfa *a, const struct dfa *b, uint32_t state_limit, const char *what,
                          struct dfa *out);

/* Every text over the symbols 0 to `last_symbol` that `dfa`, of such symbols too, does not accept. */
enum status dfa_complement(const struct dfa *dfa, uint32_t last_symbol, struct dfa *out);

/*
 * What `all` accepts and what does not lead from state 0 to `taken_end` in `taken`, both over code points.
 * Fails as dfa_determinize and dfa_intersect do. Owned: dfa_deinit.
 */
enum status dfa_exclude(const struct dfa *all, const struct nfa *taken, uint32_t taken_end,
                        uint32_t state_limit, const char *what, struct dfa *out);

/* Keeps the states that lie between the start and an accepting one. */
enum status dfa_trim(struct dfa *dfa);

/* The state behind a symbol, UINT32_MAX if there is none. */
uint32_t dfa_step(const struct dfa *dfa, uint32_t state, uint32_t symbol);

#endif
