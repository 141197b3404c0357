/*
 * Random numbers as a function of where they are used (spec parallelism, M-21): no state, no stream.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), keyed by the seed;
 * the counter holds token block, position, choice index and purpose. So a token's noise does not depend on
 * the batch, on other tokens or on how many drafts a round verifies. Any thread.
 */
#ifndef SLUICE_ENGINE_NOISE_H
#define SLUICE_ENGINE_NOISE_H

#include <stdint.h>

enum { NOISE_BLOCK_TOKENS = 4 };

/* Values are part of every text drawn with a seed: never renumber. */
enum noise_purpose {
    NOISE_PURPOSE_TOKEN = 1,      /* choosing a token, by the model or, coupled, by its drafter */
    NOISE_PURPOSE_DRAFT = 2,      /* rejection: drawing a draft */
    NOISE_PURPOSE_ACCEPT = 3,     /* rejection: whether a draft is accepted */
    NOISE_PURPOSE_CORRECTION = 4, /* rejection: the token in place of a refused draft */
};

/* Where noise is used. `position` is the absolute position of the token that is chosen. */
struct noise_place {
    uint64_t seed;
    uint32_t choice_index;
    uint32_t position;
    enum noise_purpose purpose;
};

/* The generator itself: 128 random bits for each counter and key. */
void noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);

/* The words of tokens NOISE_BLOCK_TOKENS * block and following. */
void noise_block(const struct noise_place *place, uint32_t block, uint32_t words[NOISE_BLOCK_TOKENS]);

/* The Gumbel-distributed number of a word: between -3.2 and 22.9. */
double noise_gumbel(uint32_t word);

/* At least noise_gumbel(word) and at most 1.5 more where that is positive; needs no logarithm. */
double noise_gumbel_bound(uint32_t word);

/* The one uniformly distributed number of a place that is not asked for tokens: above 0, below 1, 52 bits. */
double noise_uniform(const struct noise_place *place);

#endif
