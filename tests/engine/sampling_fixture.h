/*
 * What the tests of sampling share: random rows, the rules written the obvious way, the chi-square test.
 *
 * Functions named assert_... fail the test.
 */
#ifndef SLUICE_TESTS_ENGINE_SAMPLING_FIXTURE_H
#define SLUICE_TESTS_ENGINE_SAMPLING_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/candidate_cut.h"
#include "engine/sampler.h"

/* 24 random bits of a generator of the test's own; any number starts it. */
uint32_t random_next(uint32_t *random);

/* Random logits between -6 and 6; of few different values if `is_coarse`. */
void random_logits(uint32_t *random, bool is_coarse, float *logits, size_t count);

/* A mask that allows about half the tokens, at least one, with random bits beyond the vocabulary. */
void random_mask(uint32_t *random, token_mask_word *mask, size_t vocabulary_size);

/*
 * A model of one layer of luck: the logits after `previous` at `position`, and what its grammar allows there.
 * Functions of their arguments.
 */
void toy_logits(uint32_t seed, int32_t previous, uint32_t position, bool is_coarse, float *logits,
                size_t vocabulary_size);
void toy_mask(uint32_t seed, int32_t previous, uint32_t position, token_mask_word *mask,
              size_t vocabulary_size);

/* Every option random, from a list that holds its extremes; no logit bias. */
struct sluice_sampling random_sampling(uint32_t *random);

/* For qsort of candidates: by falling logit, then by id. */
int by_logit_then_token(const void *a, const void *b);

/* P after the mask and all rules of sluice/sampling.h in their order, each the obvious way. Above T = 0. */
void probabilities_by_sorting(const struct sluice_sampling *sampling, const struct token_counts *counts,
                              const token_mask_word *mask, const float *logits, size_t vocabulary_size,
                              double *probabilities);

/*
 * Pearson's test that `draws` draws, counted in `counts`, follow the probabilities: chi-square is below its
 * quantile for p = 0.001. What has probability 0 was never drawn; outcomes that are expected less than five
 * times are taken together. Seeds are fixed, so a passing test stays passing.
 */
void assert_draws_follow(const double *probabilities, const unsigned *counts, size_t count, unsigned draws);

/* That a share of `hits` in `draws` has the given probability, within five standard errors. */
void assert_rate(unsigned hits, unsigned draws, double probability);

#endif
