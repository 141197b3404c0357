/*
 * A walk over a trie that finds the tokens whose bytes can follow a set.
 *
 * Marks are kept in the order of the trie: what stands below a node is one range of them. One thread at a
 * time, as the automaton.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_WALK_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_WALK_H

#include <stdbool.h>

#include "text/grammar/grammar_automaton.h"

struct token_walk {
    struct grammar_automaton *automaton; /* borrowed, as all that follows */
    const struct token_trie *trie;
    bool is_thorough;    /* finds out what most characters do in each set, which pays where the same sets come
                            again    or all tokens are walked */
    uint32_t *end_nodes; /* room for the trie's nodes at which the text may end and below which more follows,
                            unless all of it is marked; NULL: not wanted */
    uint32_t end_node_count;
    uint32_t *marks; /* owned: token_walk_deinit */
    uint32_t mark_count;
};

/* Once. False: memory is out, which the automaton remembers. */
bool token_walk_run(struct token_walk *walk, uint32_t set);

/* Whether a token was marked, by its index in the trie. */
bool token_walk_has(const struct token_walk *walk, uint32_t index);

/* Adds the marked tokens to a mask by token ids. */
void token_walk_add(const struct token_walk *walk, uint32_t *words);

void token_walk_deinit(struct token_walk *walk);

#endif
