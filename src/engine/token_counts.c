/* A bit per prompt token and a count per output token. */
#include "engine/token_counts.h"

#include <stdlib.h>
#include <string.h>

enum status token_counts_init(struct token_counts *counts, size_t vocabulary_size) {
    *counts = (struct token_counts){.vocabulary_size = vocabulary_size};
    counts->output_counts = calloc(vocabulary_size, sizeof *counts->output_counts);
    counts->prompt_bits = calloc(vocabulary_size / 8 + 1, 1);
    if (counts->output_counts == NULL || counts->prompt_bits == NULL) {
        token_counts_deinit(counts);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory for the token counts of %zu tokens", vocabulary_size);
    }
    return STATUS_OK;
}

void token_counts_clear(struct token_counts *counts) {
    memset(counts->output_counts, 0, counts->vocabulary_size * sizeof *counts->output_counts);
    memset(counts->prompt_bits, 0, counts->vocabulary_size / 8 + 1);
}

void token_counts_deinit(struct token_counts *counts) {
    free(counts->output_counts);
    free(counts->prompt_bits);
    *counts = (struct token_counts){0};
}

static enum status check_token(const struct token_counts *counts, int32_t token) {
    CHECK(token >= 0 && (size_t)token < counts->vocabulary_size, STATUS_OUT_OF_RANGE,
          "token %d is not in the vocabulary of %zu tokens", token, counts->vocabulary_size);
    return STATUS_OK;
}

enum status token_counts_add_prompt(struct token_counts *counts, const int32_t *tokens, size_t token_count) {
    for (size_t i = 0; i < token_count; i++) {
        TRY(check_token(counts, tokens[i]));
        counts->prompt_bits[tokens[i] / 8] |= (unsigned char)(1u << (tokens[i] % 8));
    }
    return STATUS_OK;
}

enum status token_counts_add_output(struct token_counts *counts, int32_t token) {
    TRY(check_token(counts, token));
    counts->output_counts[token]++;
    return STATUS_OK;
}
