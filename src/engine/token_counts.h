/*
 * Which tokens a request has seen, for the penalties. One per request, one thread at a time.
 */
#ifndef SLUICE_ENGINE_TOKEN_COUNTS_H
#define SLUICE_ENGINE_TOKEN_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct token_counts {
    size_t vocabulary_size;
    uint32_t *output_counts;    /* [vocabulary_size] */
    unsigned char *prompt_bits; /* [vocabulary_size / 8, rounded up], the lowest bit first */
};

/* Nothing seen yet. Memory of about 4 bytes per token id is owned by the counts. */
enum status token_counts_init(struct token_counts *counts, size_t vocabulary_size);

/* Forgets all that was seen. */
void token_counts_clear(struct token_counts *counts);

/* Frees the memory; nothing to do for a zeroed struct. */
void token_counts_deinit(struct token_counts *counts);

/* OUT_OF_RANGE for an id that is not in the vocabulary; ids before it have been added. */
enum status token_counts_add_prompt(struct token_counts *counts, const int32_t *tokens, size_t token_count);
enum status token_counts_add_output(struct token_counts *counts, int32_t token);

/* Whether the token, below vocabulary_size, is in the prompt. */
static inline bool token_counts_is_in_prompt(const struct token_counts *counts, size_t token) {
    return (counts->prompt_bits[token / 8] >> (token % 8) & 1) != 0;
}

#endif
