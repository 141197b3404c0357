/* Plain second implementations: short before fast. */
#include "engine/sampling_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

uint32_t random_next(uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

void random_logits(uint32_t *random, bool is_coarse, float *logits, size_t count) {
    unsigned steps = is_coarse ? 12 : 1u << 20;
    for (size_t i = 0; i < count; i++) {
        logits[i] = (float)(random_next(random) % steps) * 12.0f / (float)steps - 6.0f;
    }
}

void random_mask(uint32_t *random, token_mask_word *mask, size_t vocabulary_size) {
    for (size_t word = 0; word <= (vocabulary_size - 1) / 32; word++) {
        mask[word] = random_next(random) << 16 ^ random_next(random);
    }
    size_t token = random_next(random) % vocabulary_size;
    mask[token / 32] |= (token_mask_word)1 << token % 32;
}

static uint32_t toy_random(uint32_t seed, int32_t previous, uint32_t position) {
    const uint32_t counter[4] = {position, (uint32_t)previous, 0, 0};
    const uint32_t key[2] = {seed, 0};
    uint32_t words[4];
    noise_philox(counter, key, words);
    return words[0];
}

void toy_logits(uint32_t seed, int32_t previous, uint32_t position, bool is_coarse, float *logits,
                size_t vocabulary_size) {
    uint32_t random = toy_random(seed, previous, position);
    random_logits(&random, is_coarse, logits, vocabulary_size);
}

void toy_mask(uint32_t seed, int32_t previous, uint32_t position, token_mask_word *mask,
              size_t vocabulary_size) {
    uint32_t random = toy_random(~seed, previous, position);
    random_mask(&random, mask, vocabulary_size);
}

struct sluice_sampling random_sampling(uint32_t *random) {
    static const int32_t top_ks[] = {0, -1, 1, 2, 7, 40, 100000};
    static const double top_ps[] = {1.0, 0.95, 0.7, 0.3, 0.01};
    static const double min_ps[] = {0.0, 0.02, 0.3};
    static const double temperatures[] = {1.0, 0.3, 2.5, 1e-4};
    static const double repetitions[] = {1.0, 1.0, 1.3, 0.8};
    static const double penalties[] = {0.0, 0.0, 0.4, -0.7, 2.0};
    struct sluice_sampling sampling = sluice_sampling_default();
    sampling.top_k = top_ks[random_next(random) % 7];
    sampling.top_p = top_ps[random_next(random) % 5];
    sampling.min_p = min_ps[random_next(random) % 3];
    sampling.temperature = temperatures[random_next(random) % 4];
    sampling.repetition_penalty = repetitions[random_next(random) % 4];
    sampling.presence_penalty = penalties[random_next(random) % 5];
    sampling.frequency_penalty = penalties[random_next(random) % 5];
    sampling.seed = random_next(random);
    return sampling;
}

int by_logit_then_token(const void *a, const void *b) {
    const struct candidate *first = a;
    const struct candidate *second = b;
    if (first->logit != second->logit) {
        return first->logit < second->logit ? 1 : -1;
    }
    return first->token < second->token ? -1 : first->token > second->token;
}

static float penalise(const struct sluice_sampling *sampling, const struct token_counts *counts, size_t token,
                      float logit) {
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        if ((size_t)sampling->logit_bias[i].token == token) {
            logit += sampling->logit_bias[i].bias;
        }
    }
    if (counts == NULL) {
        return logit;
    }
    float output_count = (float)counts->output_counts[token];
    if (output_count > 0.0f || token_counts_is_in_prompt(counts, token)) {
        float repetition = (float)sampling->repetition_penalty;
        logit = logit > 0.0f ? logit / repetition : logit * repetition;
    }
    logit -= (float)sampling->frequency_penalty * output_count;
    return output_count > 0.0f ? logit - (float)sampling->presence_penalty : logit;
}

/* Of sorted candidates: how many min_p, top_k and top_p leave; their weights become exp(...). */
static size_t cut_sorted(const struct sluice_sampling *sampling, struct candidate *candidates, size_t count) {
    double largest = (double)candidates[0].logit;
    for (size_t i = 0; i < count; i++) {
        candidates[i].weight = exp(((double)candidates[i].logit - largest) / sampling->temperature);
    }
    while (candidates[count - 1].weight < sampling->min_p) {
        count--;
    }
    if (sampling->top_k > 0 && (size_t)sampling->top_k < count) {
        count = (size_t)sampling->top_k;
    }
    double total = 0.0;
    for (size_t i = 0; i < count; i++) {
        total += candidates[i].weight;
    }
    double before = 0.0;
    size_t kept_count = 0;
    while (kept_count < count && (before / total < sampling->top_p || sampling->top_p == 1.0)) {
        before += candidates[kept_count++].weight;
    }
    return kept_count;
}

void probabilities_by_sorting(const struct sluice_sampling *sampling, const struct token_counts *counts,
                              const token_mask_word *mask, const float *logits, size_t vocabulary_size,
                              double *probabilities) {
    struct candidate *candidates = calloc(vocabulary_size, sizeof *candidates);
    assert_non_null(candidates);
    size_t count = 0;
    for (size_t token = 0; token < vocabulary_size; token++) {
        probabilities[token] = 0.0;
        if (mask == NULL || (mask[token / 32] & (token_mask_word)1 << token % 32) != 0) {
            float logit = penalise(sampling, counts, token, logits[token]);
            candidates[count++] = (struct candidate){(int32_t)token, logit, 0.0};
        }
    }
    qsort(candidates, count, sizeof *candidates, by_logit_then_token);
    count = cut_sorted(sampling, candidates, count);
    double total = 0.0;
    for (size_t i = 0; i < count; i++) {
        total += candidates[i].weight;
    }
    for (size_t i = 0; i < count; i++) {
        probabilities[candidates[i].token] = candidates[i].weight / total;
    }
    free(candidates);
}

/* Upper critical values for p = 0.001: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4. */
static double chi_square_limit(size_t degrees) {
    static const double limits[] = {10.828, 13.816, 16.266, 18.467, 20.515, 22.458, 24.322, 26.125,
                                    27.877, 29.588, 31.264, 32.910, 34.528, 36.123, 37.697};
    if (degrees == 49) {
        return 85.351;
    }
    assert_in_range(degrees, 1, sizeof limits / sizeof limits[0]);
    return limits[degrees - 1];
}

void assert_draws_follow(const double *probabilities, const unsigned *counts, size_t count, unsigned draws) {
    double chi_square = 0.0;
    double rare_expected = 0.0;
    double rare_drawn = 0.0;
    size_t outcomes = 0;
    for (size_t i = 0; i < count; i++) {
        double expected = probabilities[i] * (double)draws;
        if (probabilities[i] == 0.0) {
            assert_int_equal(counts[i], 0);
        } else if (expected < 5.0) {
            rare_expected += expected;
            rare_drawn += (double)counts[i];
        } else {
            chi_square += pow((double)counts[i] - expected, 2.0) / expected;
            outcomes++;
        }
    }
    if (rare_expected >= 5.0) {
        chi_square += pow(rare_drawn - rare_expected, 2.0) / rare_expected;
        outcomes++;
    } else if (rare_expected > 0.0) {
        /* Less than 5 expected: over 20 happen with a probability below 1e-7. */
        assert_true(rare_drawn <= 20.0);
    }
    if (outcomes > 1 && !(chi_square < chi_square_limit(outcomes - 1))) {
        fail_msg("chi-square is %g with %zu outcomes; for p = 0.001 it must be below %g", chi_square,
                 outcomes, chi_square_limit(outcomes - 1));
    }
}

void assert_rate(unsigned hits, unsigned draws, double probability) {
    double rate = (double)hits / (double)draws;
    double error = sqrt(probability * (1.0 - probability) / (double)draws);
    if (!(fabs(rate - probability) <= 5.0 * error + 1e-12)) {
        fail_msg("%u of %u are %g; %g is expected, give or take %g", hits, draws, rate, probability, error);
    }
}
