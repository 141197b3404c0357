/* What the sampler's draws are as a whole: their distribution, and that they depend on their place only. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/sampler.h"
#include "engine/sampling_fixture.h"

enum { DRAWS = 20000 };

static int32_t draw(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                    const float *logits, uint32_t choice_index, uint32_t position) {
    int32_t token = -1;
    assert_int_equal(sampler_choose_token(workspace, sampling, NULL, NULL, logits, choice_index, position,
                                          NOISE_PURPOSE_TOKEN, &token),
                     STATUS_OK);
    return token;
}

/* The distribution of B73: p = (.5, .3, .15, .05) at temperature 0.5, that is p squared and normalised. */
static struct sluice_sampling sampling_b73(float logits[4], double probabilities[4]) {
    static const double p[4] = {0.5, 0.3, 0.15, 0.05};
    for (int i = 0; i < 4; i++) {
        logits[i] = (float)log(p[i]);
        probabilities[i] = p[i] * p[i] / 0.365;
    }
    struct sluice_sampling sampling = sluice_sampling_default();
    sampling.temperature = 0.5;
    return sampling;
}

/* Draws that differ in seed, in choice and in position: each kind follows the softmax. */
static void draws_follow_the_softmax(void **state) {
    (void)state;
    float logits[4];
    double probabilities[4];
    struct sluice_sampling sampling = sampling_b73(logits, probabilities);
    unsigned by_seed[4] = {0};
    unsigned by_choice[4] = {0};
    unsigned by_position[4] = {0};
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(4, &workspace), STATUS_OK);
    for (uint32_t i = 0; i < DRAWS; i++) {
        sampling.seed = i;
        by_seed[draw(workspace, &sampling, logits, 0, 11)]++;
        sampling.seed = 12345;
        by_choice[draw(workspace, &sampling, logits, i, 11)]++;
        by_position[draw(workspace, &sampling, logits, 0, i)]++;
    }
    sampler_workspace_destroy(&workspace);
    assert_draws_follow(probabilities, by_seed, 4, DRAWS);
    assert_draws_follow(probabilities, by_choice, 4, DRAWS);
    assert_draws_follow(probabilities, by_position, 4, DRAWS);
}

static void neighbouring_positions_are_independent(void **state) {
    (void)state;
    float logits[4];
    double probabilities[4];
    double pair_probabilities[16];
    unsigned pairs[16] = {0};
    struct sluice_sampling sampling = sampling_b73(logits, probabilities);
    sampling.seed = 777;
    for (int i = 0; i < 16; i++) {
        pair_probabilities[i] = probabilities[i / 4] * probabilities[i % 4];
    }
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(4, &workspace), STATUS_OK);
    for (uint32_t i = 0; i < DRAWS; i++) {
        int32_t first = draw(workspace, &sampling, logits, 0, 2 * i);
        int32_t second = draw(workspace, &sampling, logits, 0, 2 * i + 1);
        pairs[first * 4 + second]++;
    }
    sampler_workspace_destroy(&workspace);
    assert_draws_follow(pair_probabilities, pairs, 16, DRAWS);
}

/* Fifty tokens in a vocabulary of 129280, scattered over it, in front of a background of tiny probability. */
static void draws_follow_the_softmax_in_a_large_vocabulary(void **state) {
    (void)state;
    enum { VOCABULARY = 129280, LIKELY = 50, STRIDE = 2477, LARGE_DRAWS = 2000 };
    float *logits = malloc(VOCABULARY * sizeof *logits);
    assert_non_null(logits);
    double probabilities[LIKELY];
    unsigned counts[LIKELY] = {0};
    double total = 0.0;
    for (size_t i = 0; i < VOCABULARY; i++) {
        logits[i] = -30.0f;
    }
    for (size_t i = 0; i < LIKELY; i++) {
        logits[i * STRIDE] = (float)(i % 7) * 0.25f;
        probabilities[i] = exp((double)logits[i * STRIDE]);
        total += probabilities[i];
    }
    for (size_t i = 0; i < LIKELY; i++) {
        probabilities[i] /= total;
    }
    struct sluice_sampling sampling = sluice_sampling_default();
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(VOCABULARY, &workspace), STATUS_OK);
    for (uint32_t i = 0; i < LARGE_DRAWS; i++) {
        int32_t token = draw(workspace, &sampling, logits, 0, i);
        assert_int_equal(token % STRIDE, 0);
        counts[token / STRIDE]++;
    }
    sampler_workspace_destroy(&workspace);
    free(logits);
    assert_draws_follow(probabilities, counts, LIKELY, LARGE_DRAWS);
}

enum { TEXT = 200 };

/* A text of draws over equal logits; `vocabulary` tokens. */
static void draw_text(uint64_t seed, uint32_t choice_index, int32_t text[TEXT]) {
    enum { VOCABULARY = 64 };
    const float logits[VOCABULARY] = {0.0f};
    struct sluice_sampling sampling = sluice_sampling_default();
    sampling.seed = seed;
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(VOCABULARY, &workspace), STATUS_OK);
    for (uint32_t i = 0; i < TEXT; i++) {
        text[i] = draw(workspace, &sampling, logits, choice_index, i);
    }
    sampler_workspace_destroy(&workspace);
}

static unsigned count_equal(const int32_t *first, const int32_t *second, size_t count) {
    unsigned equal = 0;
    for (size_t i = 0; i < count; i++) {
        equal += first[i] == second[i];
    }
    return equal;
}

/* One in 64 is equal by chance: 3 of 200. */
static void a_seed_repeats_and_others_differ(void **state) {
    (void)state;
    int32_t text[TEXT];
    int32_t other[TEXT];
    draw_text(5, 0, text);
    draw_text(5, 0, other);
    assert_int_equal(count_equal(text, other, TEXT), TEXT);
    draw_text(6, 0, other);
    assert_true(count_equal(text, other, TEXT) < 15);
    draw_text(5, 1, other);
    assert_true(count_equal(text, other, TEXT) < 15);
    assert_true(count_equal(text, text + 1, TEXT - 1) < 15);
    draw_text(5 + (1ULL << 32), 0, other);
    assert_true(count_equal(text, other, TEXT) < 15);
}

/* Coupled draws: two distributions close to each other mostly give the same token at the same place. */
static void close_distributions_draw_alike(void **state) {
    (void)state;
    const float target[] = {0.0f, 0.5f, 1.0f, 1.5f, -1.0f};
    const float drafter[] = {0.1f, 0.45f, 0.95f, 1.55f, -1.1f};
    double difference = 0.0;
    double target_total = 0.0;
    double drafter_total = 0.0;
    for (int i = 0; i < 5; i++) {
        target_total += exp((double)target[i]);
        drafter_total += exp((double)drafter[i]);
    }
    for (int i = 0; i < 5; i++) {
        difference +=
            fabs(exp((double)target[i]) / target_total - exp((double)drafter[i]) / drafter_total) / 2.0;
    }
    struct sluice_sampling sampling = sluice_sampling_default();
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(5, &workspace), STATUS_OK);
    unsigned equal = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        equal += draw(workspace, &sampling, target, 0, i) == draw(workspace, &sampling, drafter, 0, i);
    }
    sampler_workspace_destroy(&workspace);
    /* M-16: at least (1 - TV) / (1 + TV), less five standard errors. */
    double bound = (1.0 - difference) / (1.0 + difference);
    assert_true((double)equal / DRAWS > bound - 5.0 * sqrt(bound * (1.0 - bound) / DRAWS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(neighbouring_positions_are_independent),
        cmocka_unit_test(draws_follow_the_softmax_in_a_large_vocabulary),
        cmocka_unit_test(a_seed_repeats_and_others_differ),
        cmocka_unit_test(close_distributions_draw_alike),
    };
    return cmocka_run_group_tests_name("sampler_draws", tests, NULL, NULL);
}
