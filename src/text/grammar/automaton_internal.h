/* What the two halves of the automaton share: sets (grammar_automaton.c) and masks (grammar_tokens.c). */
#ifndef SLUICE_TEXT_GRAMMAR_AUTOMATON_INTERNAL_H
#define SLUICE_TEXT_GRAMMAR_AUTOMATON_INTERNAL_H

#include "text/grammar/grammar_automaton.h"

/* As grammar_automaton_step, in place where the way is known: walks take it for every byte of the tokens. */
static inline uint32_t automaton_step(struct grammar_automaton *automaton, uint32_t set, uint32_t symbol) {
    const uint32_t *ways = chunk_table_at(&automaton->next, set);
    uint32_t next = ways[automaton->symbol_classes[symbol]];
    return next != UINT32_MAX ? next : grammar_automaton_step(automaton, set, symbol);
}

/* What most characters that may follow a set do: all characters of some groups lead to one set. */
struct uniform_step {
    uint32_t next;
    uint64_t groups; /* of token_trie.h; 0: there are none */
};

/* Found out once for each set. */
struct uniform_step automaton_uniform_step(struct grammar_automaton *automaton, uint32_t set);

/* The set of places, as they are. */
uint32_t automaton_set_of_places(struct grammar_automaton *automaton, const struct config *places,
                                 uint32_t count);

/* The set behind the frames of places. */
uint32_t automaton_set_behind(struct grammar_automaton *automaton, const struct config *places,
                              uint32_t count);

/* Frees masks and what states accept. */
void automaton_forget_tokens(struct grammar_automaton *automaton);

#endif
