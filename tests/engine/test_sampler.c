/* What the sampler does exactly: greedy, penalties by hand, masks, filters against sorting, errors, logprobs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/candidate_cut.h"
#include "engine/sampler.h"
#include "engine/sampling_fixture.h"

static struct sluice_sampling greedy(void) {
    struct sluice_sampling sampling = sluice_sampling_default();
    sampling.temperature = 0.0;
    return sampling;
}

/* Chooses with a workspace of its own; choice 0. */
static enum status choose_masked(const struct sluice_sampling *sampling, const struct token_counts *counts,
                                 const token_mask_word *mask, const float *logits, size_t vocabulary_size,
                                 uint32_t position, int32_t *token) {
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(vocabulary_size, &workspace), STATUS_OK);
    assert_int_equal(sampler_vocabulary_size(workspace), vocabulary_size);
    enum status status = sampler_choose_token(workspace, sampling, counts, mask, logits, 0, position,
                                              NOISE_PURPOSE_TOKEN, token);
    sampler_workspace_destroy(&workspace);
    assert_null(workspace);
    return status;
}

static enum status choose(const struct sluice_sampling *sampling, const struct token_counts *counts,
                          const float *logits, size_t vocabulary_size, uint32_t position, int32_t *token) {
    return choose_masked(sampling, counts, NULL, logits, vocabulary_size, position, token);
}

static int32_t chosen(const struct sluice_sampling *sampling, const struct token_counts *counts,
                      const float *logits, size_t vocabulary_size, uint32_t position) {
    int32_t token = -1;
    assert_int_equal(choose(sampling, counts, logits, vocabulary_size, position, &token), STATUS_OK);
    return token;
}

static void greedy_takes_the_lowest_id_of_the_largest(void **state) {
    (void)state;
    const struct sluice_sampling sampling = greedy();
    assert_int_equal(chosen(&sampling, NULL, (float[]){1, 3, 3, 2}, 4, 0), 1);
    assert_int_equal(chosen(&sampling, NULL, (float[]){-7, -7, -7}, 3, 0), 0);
    assert_int_equal(chosen(&sampling, NULL, (float[]){-0.0f, 0.0f}, 2, 0), 0);
    assert_int_equal(chosen(&sampling, NULL, (float[]){-3, -2, -1}, 3, 0), 2);
    struct sluice_sampling tiny = sampling;
    tiny.temperature = 0.9e-5;
    for (uint32_t position = 0; position < 100; position++) {
        assert_int_equal(chosen(&tiny, NULL, (float[]){1, 1, 1}, 3, position), 0);
    }
}

/* Draws between equal logits do differ, and one candidate left is greedy. */
static void one_candidate_is_greedy(void **state) {
    (void)state;
    const float logits[] = {0.5f, 2.0f, 2.0f, 1.0f};
    struct sluice_sampling top_k = sluice_sampling_default();
    top_k.top_k = 1;
    struct sluice_sampling top_p = sluice_sampling_default();
    top_p.top_p = 1e-9;
    struct sluice_sampling min_p = sluice_sampling_default();
    min_p.min_p = 1.0;
    const struct sluice_sampling all = sluice_sampling_default();
    unsigned seen_min_p = 0;
    unsigned seen_all = 0;
    for (uint32_t position = 0; position < 200; position++) {
        assert_int_equal(chosen(&top_k, NULL, logits, 4, position), 1);
        assert_int_equal(chosen(&top_p, NULL, logits, 4, position), 1);
        seen_min_p |= 1u << chosen(&min_p, NULL, logits, 4, position);
        seen_all |= 1u << chosen(&all, NULL, logits, 4, position);
    }
    assert_int_equal(seen_min_p, 1u << 1 | 1u << 2);
    assert_int_equal(seen_all, 15);
}

/*
 * Token 0 has `logit`, in prompt and output as often as told; the rules make it `expected`. A second token
 * without history, a little above or below that, shows it.
 */
static void assert_adjusted(const struct sluice_sampling *sampling, float logit, int prompt_count,
                            int output_count, float expected) {
    struct token_counts counts;
    const int32_t token = 0;
    assert_int_equal(token_counts_init(&counts, 2), STATUS_OK);
    for (int i = 0; i < prompt_count; i++) {
        assert_int_equal(token_counts_add_prompt(&counts, &token, 1), STATUS_OK);
    }
    for (int i = 0; i < output_count; i++) {
        assert_int_equal(token_counts_add_output(&counts, token), STATUS_OK);
    }
    assert_int_equal(chosen(sampling, &counts, (float[]){logit, expected - 1e-4f}, 2, 0), 0);
    assert_int_equal(chosen(sampling, &counts, (float[]){logit, expected + 1e-4f}, 2, 0), 1);
    token_counts_deinit(&counts);
}

static void penalties_by_hand(void **state) {
    (void)state;
    struct sluice_sampling sampling = greedy();
    sampling.repetition_penalty = 2.0;
    assert_adjusted(&sampling, 3.0f, 0, 0, 3.0f);
    assert_adjusted(&sampling, 3.0f, 5, 0, 1.5f);
    assert_adjusted(&sampling, 3.0f, 0, 5, 1.5f);
    assert_adjusted(&sampling, -3.0f, 1, 1, -6.0f);
    sampling.frequency_penalty = 0.25;
    sampling.presence_penalty = 0.5;
    assert_adjusted(&sampling, 3.0f, 4, 0, 1.5f);
    assert_adjusted(&sampling, 3.0f, 0, 2, 1.5f - 0.5f - 0.5f);
    assert_adjusted(&sampling, -1.0f, 1, 3, -2.0f - 0.75f - 0.5f);
    sampling.repetition_penalty = 1.0;
    sampling.frequency_penalty = -1.5;
    sampling.presence_penalty = 0.0;
    assert_adjusted(&sampling, 1.0f, 0, 2, 4.0f);
}

static void bias_comes_before_penalties(void **state) {
    (void)state;
    const struct sluice_logit_bias bias[] = {{0, 2.0f}, {0, -0.5f}};
    struct sluice_sampling sampling = greedy();
    sampling.logit_bias = bias;
    sampling.logit_bias_count = 1;
    assert_adjusted(&sampling, 1.0f, 1, 1, 3.0f);
    sampling.logit_bias_count = 2;
    assert_adjusted(&sampling, 1.0f, 0, 0, 2.5f);
    sampling.repetition_penalty = 2.0;
    assert_adjusted(&sampling, 1.0f, 1, 0, 1.25f);
    /* The logits themselves stay as they were. */
    const float logits[] = {1.0f, 2.0f};
    sampling.repetition_penalty = 1.0;
    assert_int_equal(chosen(&sampling, NULL, logits, 2, 0), 0);
    assert_true(logits[0] == 1.0f && logits[1] == 2.0f);
}

static void token_counts_keep_tokens_apart(void **state) {
    (void)state;
    struct token_counts counts;
    const int32_t prompt[] = {0, 9, 16, 9};
    assert_int_equal(token_counts_init(&counts, 17), STATUS_OK);
    assert_int_equal(token_counts_add_prompt(&counts, prompt, 4), STATUS_OK);
    assert_int_equal(token_counts_add_output(&counts, 3), STATUS_OK);
    assert_int_equal(token_counts_add_output(&counts, 3), STATUS_OK);
    for (size_t token = 0; token < 17; token++) {
        assert_int_equal(token_counts_is_in_prompt(&counts, token), token == 0 || token == 9 || token == 16);
        assert_int_equal(counts.output_counts[token], token == 3 ? 2 : 0);
    }
    assert_int_equal(token_counts_add_output(&counts, 17), STATUS_OUT_OF_RANGE);
    assert_int_equal(token_counts_add_output(&counts, -1), STATUS_OUT_OF_RANGE);
    assert_int_equal(token_counts_add_prompt(&counts, (int32_t[]){1, 17}, 2), STATUS_OUT_OF_RANGE);
    token_counts_deinit(&counts);
    token_counts_deinit(&counts);
}

static int by_token(const void *a, const void *b) {
    return ((const struct candidate *)a)->token - ((const struct candidate *)b)->token;
}

/* Sorts, adds up in order, and sorts back. */
static size_t cut_by_sorting(struct candidate *candidates, size_t count, double budget) {
    qsort(candidates, count, sizeof *candidates, by_logit_then_token);
    double before = 0.0;
    size_t kept_count = 0;
    while (kept_count < count && before < budget) {
        before += candidates[kept_count++].weight;
    }
    qsort(candidates, kept_count, sizeof *candidates, by_token);
    return kept_count;
}

enum { CUT_MAX = 1000 };

/* Weights are integers, so that sums do not depend on their order. `spread` small: many equal logits. */
static void check_cut(uint32_t *random, size_t count, unsigned spread) {
    struct candidate candidates[CUT_MAX];
    struct candidate sorted[CUT_MAX];
    double total = 0.0;
    for (size_t i = 0; i < count; i++) {
        int level = (int)(random_next(random) % spread) - (int)spread / 2;
        float logit = level == 0 && i % 2 == 0 ? -0.0f : (float)level * 0.37f;
        double weight = level < -(int)spread / 3 ? 0.0 : (double)(level + (int)spread);
        candidates[i] = (struct candidate){(int32_t)(3 * i), logit, weight};
        total += weight;
    }
    qsort(candidates, count, sizeof *candidates, by_logit_then_token);
    if (candidates[0].weight == 0.0) {
        return;
    }
    qsort(candidates, count, sizeof *candidates, by_token);
    memcpy(sorted, candidates, sizeof sorted);
    double budget = 1.0 + floor(total * (double)(random_next(random) % 1000) / 1000.0);
    size_t kept_count = candidate_cut(candidates, count, budget);
    assert_int_equal(kept_count, cut_by_sorting(sorted, count, budget));
    for (size_t i = 0; i < kept_count; i++) {
        assert_int_equal(candidates[i].token, sorted[i].token);
    }
}

static void cuts_equal_sorting(void **state) {
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 500; round++) {
        size_t count = 1 + random_next(&random) % CUT_MAX;
        check_cut(&random, count, 3);
        check_cut(&random, count, 50);
        check_cut(&random, count, 1000000);
    }
}

/* The argmax of log P + noise, the obvious way. */
static int32_t choose_by_sorting(const struct sluice_sampling *sampling, const struct token_counts *counts,
                                 const token_mask_word *mask, const float *logits, size_t count,
                                 uint32_t position) {
    double *probabilities = calloc(count, sizeof *probabilities);
    assert_non_null(probabilities);
    probabilities_by_sorting(sampling, counts, mask, logits, count, probabilities);
    int32_t best_token = -1;
    double best_score = -INFINITY;
    for (uint32_t token = 0; token < count; token++) {
        uint32_t words[NOISE_BLOCK_TOKENS];
        const struct noise_place place = {sampling->seed, 0, position, NOISE_PURPOSE_TOKEN};
        noise_block(&place, token / NOISE_BLOCK_TOKENS, words);
        double score = log(probabilities[token]) + noise_gumbel(words[token % NOISE_BLOCK_TOKENS]);
        if (score > best_score) {
            best_score = score;
            best_token = (int32_t)token;
        }
    }
    free(probabilities);
    return best_token;
}

enum { VOCABULARY_MAX = 700 };

/* Every third row in coarse steps: many ties. Every other round has a mask. */
static int32_t check_choice(uint32_t *random, uint32_t round) {
    float logits[VOCABULARY_MAX];
    token_mask_word mask_words[VOCABULARY_MAX / 32 + 1];
    struct token_counts counts;
    size_t vocabulary_size = 1 + random_next(random) % VOCABULARY_MAX;
    const token_mask_word *mask = round % 2 == 0 ? mask_words : NULL;
    random_logits(random, round % 3 == 0, logits, vocabulary_size);
    random_mask(random, mask_words, vocabulary_size);
    struct sluice_sampling sampling = random_sampling(random);
    const struct sluice_logit_bias bias = {(int32_t)(random_next(random) % vocabulary_size), 1.5f};
    sampling.logit_bias = &bias;
    sampling.logit_bias_count = round % 5 == 0 ? 1 : 0;
    assert_int_equal(token_counts_init(&counts, vocabulary_size), STATUS_OK);
    for (size_t i = 0; i < vocabulary_size / 4; i++) {
        int32_t token = (int32_t)(random_next(random) % vocabulary_size);
        assert_int_equal(token_counts_add_prompt(&counts, &token, 1), STATUS_OK);
        token = (int32_t)(random_next(random) % vocabulary_size);
        assert_int_equal(token_counts_add_output(&counts, token), STATUS_OK);
    }
    int32_t token = -1;
    assert_int_equal(choose_masked(&sampling, &counts, mask, logits, vocabulary_size, round, &token),
                     STATUS_OK);
    assert_int_equal(token, choose_by_sorting(&sampling, &counts, mask, logits, vocabulary_size, round));
    token_counts_deinit(&counts);
    return token;
}

static void choices_equal_sorting(void **state) {
    (void)state;
    uint32_t random = 7;
    unsigned distinct = 0;
    int32_t previous = -1;
    for (uint32_t round = 0; round < 3000; round++) {
        int32_t token = check_choice(&random, round);
        distinct += token != previous;
        previous = token;
    }
    assert_true(distinct > 1000);
}

/* 40 tokens, of which the mask's second word allows one or two. */
static void masked_tokens_are_never_chosen(void **state) {
    (void)state;
    enum { VOCABULARY = 40 };
    float logits[VOCABULARY] = {[3] = 9.0f, [33] = 1.0f, [36] = 1.0f, [38] = 8.0f};
    const token_mask_word two[] = {0, 1u << 1 | 1u << 4 | 1u << 20};
    const token_mask_word one[] = {0, 1u << 4};
    const struct sluice_sampling lowest = greedy();
    struct sluice_sampling top_k = sluice_sampling_default();
    top_k.top_k = 2;
    struct sluice_sampling min_p = sluice_sampling_default();
    min_p.min_p = 1.0;
    unsigned drawn_33 = 0;
    for (uint32_t position = 0; position < 200; position++) {
        int32_t token = -1;
        assert_int_equal(choose_masked(&lowest, NULL, two, logits, VOCABULARY, position, &token), STATUS_OK);
        assert_int_equal(token, 33);
        assert_int_equal(choose_masked(&min_p, NULL, two, logits, VOCABULARY, position, &token), STATUS_OK);
        assert_true(token == 33 || token == 36);
        assert_int_equal(choose_masked(&top_k, NULL, two, logits, VOCABULARY, position, &token), STATUS_OK);
        assert_true(token == 33 || token == 36);
        drawn_33 += token == 33;
        assert_int_equal(choose_masked(&top_k, NULL, one, logits, VOCABULARY, position, &token), STATUS_OK);
        assert_int_equal(token, 36);
    }
    assert_in_range(drawn_33, 60, 140);
}

/* Bits beyond the vocabulary allow nothing. */
static void a_mask_without_tokens_is_an_error(void **state) {
    (void)state;
    const float logits[40] = {1.0f};
    const token_mask_word none[] = {0, ~0u << 8};
    const struct sluice_sampling samplings[] = {greedy(), sluice_sampling_default()};
    for (size_t i = 0; i < 2; i++) {
        int32_t token;
        assert_int_equal(choose_masked(&samplings[i], NULL, none, logits, 40, 77, &token),
                         STATUS_UNSUPPORTED);
        assert_non_null(strstr(error_last()->message, "none of the 40 tokens at position 77"));
    }
    /* A damaged row is one even where the mask forbids its tokens. */
    int32_t token;
    assert_int_equal(
        choose_masked(&samplings[0], NULL, (token_mask_word[]){1}, (float[]){1, NAN}, 2, 0, &token),
        STATUS_NOT_FINITE);
}

/* B22: a row longer than the vocabulary, whose rest is larger or no number, never wins. */
static void padding_is_never_chosen(void **state) {
    (void)state;
    enum { VOCABULARY = 500, ROW = 512 };
    float logits[ROW];
    uint32_t random = 3;
    struct sluice_sampling sampling = sluice_sampling_default();
    const struct sluice_sampling lowest = greedy();
    sampling.temperature = 5.0;
    for (uint32_t round = 0; round < 2000; round++) {
        for (size_t i = 0; i < VOCABULARY; i++) {
            logits[i] = -5.0f + (float)(random_next(&random) % 1000) * 1e-4f;
        }
        for (size_t i = VOCABULARY; i < ROW; i++) {
            logits[i] = i % 2 == 0 ? 0.0f : NAN;
        }
        assert_in_range(chosen(&sampling, NULL, logits, VOCABULARY, round), 0, VOCABULARY - 1);
        if (round < 200) {
            struct token_log_probability own;
            struct token_log_probability top[SAMPLER_TOP_MAX];
            assert_in_range(chosen(&lowest, NULL, logits, VOCABULARY, round), 0, VOCABULARY - 1);
            assert_int_equal(sampler_log_probabilities(logits, VOCABULARY, 0, SAMPLER_TOP_MAX, &own, top),
                             STATUS_OK);
            for (size_t i = 0; i < SAMPLER_TOP_MAX; i++) {
                assert_in_range(top[i].token, 0, VOCABULARY - 1);
            }
        }
    }
}

static void logits_that_are_not_finite_are_errors(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const struct sluice_sampling samplings[] = {greedy(), sluice_sampling_default()};
    for (size_t i = 0; i < 3; i++) {
        float logits[] = {1.0f, 2.0f, bad[i], 0.5f};
        for (size_t j = 0; j < 2; j++) {
            int32_t token;
            assert_int_equal(choose(&samplings[j], NULL, logits, 4, 0, &token), STATUS_NOT_FINITE);
            assert_non_null(strstr(error_last()->message, "token 2"));
        }
        struct token_log_probability own;
        assert_int_equal(sampler_log_probabilities(logits, 4, 0, 0, &own, NULL), STATUS_NOT_FINITE);
    }
}

/* Far behind the largest so far, where most tokens are passed over many at a time. */
static void the_largest_of_a_long_row(void **state) {
    (void)state;
    enum { VOCABULARY = 301, FIRST = 3 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const struct sluice_sampling sampling = greedy();
    for (int32_t at = FIRST + 1; at < VOCABULARY; at++) {
        float logits[VOCABULARY] = {[FIRST] = 2.0f};
        int32_t token;
        logits[at] = 2.0f;
        assert_int_equal(chosen(&sampling, NULL, logits, VOCABULARY, 0), FIRST);
        logits[at] = nextafterf(2.0f, 3.0f);
        assert_int_equal(chosen(&sampling, NULL, logits, VOCABULARY, 0), at);
        for (size_t i = 0; i < 3; i++) {
            logits[at] = bad[i];
            assert_int_equal(choose(&sampling, NULL, logits, VOCABULARY, 0, &token), STATUS_NOT_FINITE);
        }
    }
}

static void assert_refused(struct sluice_sampling sampling, const char *name) {
    int32_t token;
    assert_int_equal(sampler_check(&sampling, 4), STATUS_OUT_OF_RANGE);
    assert_int_equal(choose(&sampling, NULL, (float[]){1, 2, 3, 4}, 4, 0, &token), STATUS_OUT_OF_RANGE);
    if (strstr(error_last()->message, name) == NULL) {
        fail_msg("\"%s\" does not name %s", error_last()->message, name);
    }
}

static void options_out_of_range_are_named(void **state) {
    (void)state;
    const struct sluice_sampling base = sluice_sampling_default();
    assert_int_equal(sampler_check(&base, 4), STATUS_OK);
#define ASSERT_REFUSED(field, value)           \
    do {                                       \
        struct sluice_sampling changed = base; \
        changed.field = (value);               \
        assert_refused(changed, #field);       \
    } while (0)
    ASSERT_REFUSED(temperature, -0.1);
    ASSERT_REFUSED(temperature, (double)NAN);
    ASSERT_REFUSED(temperature, (double)INFINITY);
    ASSERT_REFUSED(top_k, -2);
    ASSERT_REFUSED(top_p, 0.0);
    ASSERT_REFUSED(top_p, 1.01);
    ASSERT_REFUSED(top_p, (double)NAN);
    ASSERT_REFUSED(min_p, -0.1);
    ASSERT_REFUSED(min_p, 1.1);
    ASSERT_REFUSED(repetition_penalty, 0.0);
    ASSERT_REFUSED(repetition_penalty, (double)INFINITY);
    ASSERT_REFUSED(presence_penalty, 2.1);
    ASSERT_REFUSED(presence_penalty, (double)NAN);
    ASSERT_REFUSED(frequency_penalty, -2.1);
#undef ASSERT_REFUSED
    static const struct sluice_logit_bias bad[] = {{4, 1.0f}, {-1, 1.0f}, {0, INFINITY}};
    for (size_t i = 0; i < 3; i++) {
        struct sluice_sampling changed = base;
        changed.logit_bias = &bad[i];
        changed.logit_bias_count = 1;
        assert_refused(changed, "logit_bias");
    }
    struct sluice_sampling penalised = base;
    penalised.presence_penalty = 1.0;
    int32_t token;
    assert_int_equal(choose(&penalised, NULL, (float[]){1, 2}, 2, 0, &token), STATUS_BAD_ARGUMENT);
    struct sampler_workspace *workspace;
    assert_int_equal(sampler_workspace_create(0, &workspace), STATUS_BAD_ARGUMENT);
}

static void log_probabilities_by_hand(void **state) {
    (void)state;
    /* Probabilities 0.1, 0.4, 0.4, 0.1, shifted far from 0. */
    const float logits[] = {1000.0f, 1000.0f + 1.38629436f, 1000.0f + 1.38629436f, 1000.0f};
    struct token_log_probability own;
    struct token_log_probability top[4];
    assert_int_equal(sampler_log_probabilities(logits, 4, 3, 4, &own, top), STATUS_OK);
    static const int32_t tokens[] = {1, 2, 0, 3};
    static const double probabilities[] = {0.4, 0.4, 0.1, 0.1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(top[i].token, tokens[i]);
        assert_true(fabs(top[i].log_probability - log(probabilities[i])) < 1e-4);
    }
    assert_int_equal(own.token, 3);
    assert_true(fabs(own.log_probability - log(0.1)) < 1e-4);
    assert_int_equal(sampler_log_probabilities(logits, 4, 4, 0, &own, NULL), STATUS_OUT_OF_RANGE);
    assert_int_equal(sampler_log_probabilities(logits, 4, -1, 0, &own, NULL), STATUS_OUT_OF_RANGE);
    assert_int_equal(sampler_log_probabilities(logits, 4, 0, 5, &own, top), STATUS_OUT_OF_RANGE);
}

static void log_probabilities_equal_sorting(void **state) {
    (void)state;
    enum { VOCABULARY = 300 };
    uint32_t random = 99;
    for (int round = 0; round < 200; round++) {
        float logits[VOCABULARY];
        struct candidate sorted[VOCABULARY];
        unsigned steps = round % 2 == 0 ? 9 : 1u << 20;
        double total = 0.0;
        for (size_t i = 0; i < VOCABULARY; i++) {
            logits[i] = (float)(random_next(&random) % steps) * 8.0f / (float)steps;
            sorted[i] = (struct candidate){(int32_t)i, logits[i], 0.0};
            total += exp((double)logits[i]);
        }
        qsort(sorted, VOCABULARY, sizeof sorted[0], by_logit_then_token);
        size_t top_count = random_next(&random) % (SAMPLER_TOP_MAX + 1);
        int32_t token = (int32_t)(random_next(&random) % VOCABULARY);
        struct token_log_probability own;
        struct token_log_probability top[SAMPLER_TOP_MAX];
        assert_int_equal(sampler_log_probabilities(logits, VOCABULARY, token, top_count, &own, top),
                         STATUS_OK);
        assert_true(fabs(own.log_probability - ((double)logits[token] - log(total))) < 1e-12);
        for (size_t i = 0; i < top_count; i++) {
            assert_int_equal(top[i].token, sorted[i].token);
            assert_true(fabs(top[i].log_probability - ((double)sorted[i].logit - log(total))) < 1e-12);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_id_of_the_largest),
        cmocka_unit_test(one_candidate_is_greedy),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(bias_comes_before_penalties),
        cmocka_unit_test(token_counts_keep_tokens_apart),
        cmocka_unit_test(cuts_equal_sorting),
        cmocka_unit_test(choices_equal_sorting),
        cmocka_unit_test(masked_tokens_are_never_chosen),
        cmocka_unit_test(a_mask_without_tokens_is_an_error),
        cmocka_unit_test(padding_is_never_chosen),
        cmocka_unit_test(logits_that_are_not_finite_are_errors),
        cmocka_unit_test(the_largest_of_a_long_row),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(log_probabilities_by_hand),
        cmocka_unit_test(log_probabilities_equal_sorting),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
