/*
 * Sets of tokens, each kept once: places where the same tokens may follow share one.
 *
 * Where a text has very many readings each step leads to a new place, but mostly to the tokens of another
 * one. One that is kept for each place would be 16 KB of new memory in each step, at 129k tokens. One thread
 * at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_SETS_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_SETS_BUCKETS = 256 };

/* Token ids: as a mask if there are many, as a list if there are few. */
struct token_set {
    struct token_set *next; /* in its bucket */
    uint64_t hash;          /* of the mask */
    bool is_mask;
    uint32_t count; /* words or ids */
    uint32_t values[];
};

/* Zeroed: none. Owned: token_sets_clear. */
struct token_sets {
    struct token_set *buckets[TOKEN_SETS_BUCKETS];
    size_t bytes;
};

/* The set of a mask's tokens, valid until token_sets_clear; NULL if memory is out. */
const struct token_set *token_sets_find(struct token_sets *sets, const uint32_t *words, uint32_t word_count);

/* Adds the tokens of a set to a mask. */
void token_set_add_to(const struct token_set *set, uint32_t *words);

/* Frees all sets; there are none then. */
void token_sets_clear(struct token_sets *sets);

#endif
