/*
 * A walk over a trie that finds the tokens whose bytes can follow a set.
 *
 * Of a whole vocabulary it looks only at tokens of which their characters alone do not say whether they can.
 * One thread at a time, as the automaton.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_WALK_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_WALK_H

#include <stdbool.h>

#include "text/grammar/grammar_automaton.h"

struct token_walk {
    struct grammar_automaton *automaton; /* borrowed, as all that follows */
    const struct token_trie *trie;
    const struct token_characters *characters; /* of a vocabulary, if its trie is walked; or NULL */
    bool is_thorough;    /* finds out what most characters do in each set, which pays where the same sets come
                            again */
    uint32_t *words;     /* a mask, to which the tokens are added */
    uint32_t *end_nodes; /* room for the trie's nodes at which the text may end and below which more follows,
                            unless all of it can; NULL: not wanted */
    uint32_t end_node_count;
};

/* Once. False: memory is out, which the automaton remembers. */
bool token_walk_run(struct token_walk *walk, uint32_t set);

#endif
