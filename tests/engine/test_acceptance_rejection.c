/*
 * Rejection: whatever the drafts are, tokens have the target's distribution (spec parallelism M-16, T-12),
 * and drafts are accepted as often as that allows.
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

#include "engine/acceptance.h"
#include "engine/sampling_fixture.h"

enum { DRAWS = 20000, TEXT = 2, VOCABULARY_MAX = 16, MASK_WORDS = 1, FIRST_POSITION = 40, PROMPT_TOKEN = 1 };

/* Targets and drafters of a text of two tokens. Fixed rows for B73 and B75, toy rows otherwise. */
struct scene {
    size_t vocabulary_size;
    uint32_t target_seed;
    uint32_t drafter_seed;
    const float *target; /* NULL: toy rows */
    const float *drafter;
    bool has_masks;
    bool has_penalties;
    bool is_one_hot;
    bool varies_draft_count; /* with the token before, as a controller that looks at the text does */
    struct sluice_sampling sampling;
    struct sampler_workspace *workspace;
};

/* What many texts of a scene came to. */
struct tally {
    unsigned first[VOCABULARY_MAX];
    unsigned pairs[VOCABULARY_MAX * VOCABULARY_MAX];
    unsigned draws;
    unsigned accepted; /* first drafts */
};

/* Logits between -2 and 2: no token is too rare to be counted. */
static void make_logits(const struct scene *scene, bool is_draft, int32_t previous, uint32_t index,
                        float *logits) {
    const float *fixed = is_draft ? scene->drafter : scene->target;
    if (fixed != NULL) {
        memcpy(logits, fixed, scene->vocabulary_size * sizeof *logits);
        return;
    }
    toy_logits(is_draft ? scene->drafter_seed : scene->target_seed, previous, index, false, logits,
               scene->vocabulary_size);
    for (size_t i = 0; i < scene->vocabulary_size; i++) {
        logits[i] /= 3.0f;
    }
}

static void init_counts(const struct scene *scene, struct token_counts *counts) {
    const int32_t prompt = PROMPT_TOKEN;
    assert_int_equal(token_counts_init(counts, scene->vocabulary_size), STATUS_OK);
    assert_int_equal(token_counts_add_prompt(counts, &prompt, 1), STATUS_OK);
}

static int32_t count_drafts(const struct scene *scene, int32_t previous, int32_t index) {
    return scene->varies_draft_count ? previous % (TEXT - index + 1) : TEXT - index;
}

/* One round: drafts for tokens `index` and on of a text, and what came of them. */
static int32_t run_round(const struct scene *scene, struct token_counts *counts, int32_t previous,
                         int32_t index, int32_t *tokens, bool *is_first_accepted) {
    float logits[TEXT + 1][VOCABULARY_MAX];
    float probabilities[TEXT][VOCABULARY_MAX];
    struct draft_distribution distributions[TEXT];
    token_mask_word mask_words[TEXT + 1][MASK_WORDS];
    const token_mask_word *masks[TEXT + 1];
    int32_t drafts[TEXT];
    size_t row_size = scene->vocabulary_size;
    int32_t draft_count = count_drafts(scene, previous, index);
    for (int32_t row = 0; row <= draft_count; row++) {
        uint32_t place = (uint32_t)(index + row);
        make_logits(scene, false, previous, place, logits[0] + (size_t)row * row_size);
        toy_mask(scene->target_seed, previous, place, mask_words[row], row_size);
        masks[row] = mask_words[row];
        if (row < draft_count) {
            float draft_logits[VOCABULARY_MAX];
            make_logits(scene, true, previous, place, draft_logits);
            distributions[row].probabilities = scene->is_one_hot ? NULL : probabilities[row];
            assert_int_equal(acceptance_draft(scene->workspace, &scene->sampling, counts, draft_logits,
                                              DRAFT_SAMPLING_REJECTION, 0, FIRST_POSITION + place,
                                              scene->is_one_hot ? NULL : probabilities[row], &drafts[row]),
                             STATUS_OK);
            previous = drafts[row];
        }
    }
    const struct verify_rows rows = {.logits = logits[0],
                                     .drafts = drafts,
                                     .draft_count = draft_count,
                                     .distributions = scene->is_one_hot ? NULL : distributions,
                                     .masks = scene->has_masks ? masks : NULL,
                                     .mode = DRAFT_SAMPLING_REJECTION,
                                     .first_position = (uint32_t)(FIRST_POSITION + index)};
    int32_t token_count = 0;
    assert_int_equal(
        acceptance_verify(scene->workspace, &scene->sampling, counts, &rows, tokens, &token_count),
        STATUS_OK);
    assert_in_range(token_count, 1, draft_count + 1);
    for (int32_t i = 0; i + 1 < token_count; i++) {
        assert_int_equal(tokens[i], drafts[i]);
    }
    if (token_count <= draft_count) {
        assert_int_not_equal(tokens[token_count - 1], drafts[token_count - 1]);
    }
    *is_first_accepted = draft_count > 0 && token_count > 1;
    return token_count;
}

/* Text of a seed, round by round; returns whether its first draft was accepted. */
static bool write_text(struct scene *scene, uint64_t seed, int32_t text[TEXT + 1]) {
    struct token_counts counts;
    int32_t previous = PROMPT_TOKEN;
    bool is_accepted = false;
    init_counts(scene, &counts);
    scene->sampling.seed = seed;
    for (int32_t index = 0; index < TEXT;) {
        bool is_first_accepted;
        int32_t token_count = run_round(scene, scene->has_penalties ? &counts : NULL, previous, index,
                                        text + index, &is_first_accepted);
        is_accepted = index == 0 ? is_first_accepted : is_accepted;
        index += token_count;
        previous = text[index - 1];
    }
    token_counts_deinit(&counts);
    return is_accepted;
}

static void tally_texts(struct scene *scene, unsigned draws, struct tally *tally) {
    *tally = (struct tally){.draws = draws};
    assert_int_equal(sampler_workspace_create(scene->vocabulary_size, &scene->workspace), STATUS_OK);
    for (uint64_t seed = 0; seed < draws; seed++) {
        int32_t text[TEXT + 1];
        tally->accepted += write_text(scene, seed, text);
        tally->first[text[0]]++;
        tally->pairs[(size_t)text[0] * scene->vocabulary_size + (size_t)text[1]]++;
    }
    sampler_workspace_destroy(&scene->workspace);
}

/* P or Q of token `index` after `previous`. */
static void expect_row(const struct scene *scene, bool is_draft, const struct token_counts *counts,
                       int32_t previous, uint32_t index, double *probabilities) {
    float logits[VOCABULARY_MAX];
    token_mask_word mask[MASK_WORDS];
    make_logits(scene, is_draft, previous, index, logits);
    toy_mask(scene->target_seed, previous, index, mask, scene->vocabulary_size);
    probabilities_by_sorting(&scene->sampling, scene->has_penalties ? counts : NULL,
                             scene->has_masks && !is_draft ? mask : NULL, logits, scene->vocabulary_size,
                             probabilities);
}

/* The sum over all tokens of min(P, Q), where Q may be all on its likeliest token. */
static double expect_acceptance(const struct scene *scene, const double *target, const double *drafter) {
    double sum = 0.0;
    size_t likeliest = 0;
    for (size_t i = 0; i < scene->vocabulary_size; i++) {
        sum += fmin(target[i], drafter[i]);
        likeliest = drafter[i] > drafter[likeliest] ? i : likeliest;
    }
    return scene->is_one_hot ? target[likeliest] : sum;
}

/* First tokens and, in a vocabulary of four, pairs follow the target; first drafts are accepted as expected.
 */
static void check_scene(struct scene *scene, unsigned draws) {
    struct tally tally;
    struct token_counts counts;
    double first[VOCABULARY_MAX];
    double drafter[VOCABULARY_MAX];
    double pairs[VOCABULARY_MAX * VOCABULARY_MAX];
    size_t size = scene->vocabulary_size;
    tally_texts(scene, draws, &tally);
    init_counts(scene, &counts);
    expect_row(scene, false, &counts, PROMPT_TOKEN, 0, first);
    expect_row(scene, true, &counts, PROMPT_TOKEN, 0, drafter);
    assert_draws_follow(first, tally.first, size, draws);
    if (count_drafts(scene, PROMPT_TOKEN, 0) > 0) {
        assert_rate(tally.accepted, draws, expect_acceptance(scene, first, drafter));
    }
    for (size_t i = 0; size == 4 && i < size; i++) {
        assert_int_equal(token_counts_add_output(&counts, (int32_t)i), STATUS_OK);
        expect_row(scene, false, &counts, (int32_t)i, 1, pairs + i * size);
        counts.output_counts[i]--;
        for (size_t j = 0; j < size; j++) {
            pairs[i * size + j] *= first[i];
        }
    }
    if (size == 4) {
        assert_draws_follow(pairs, tally.pairs, size * size, draws);
    }
    token_counts_deinit(&counts);
}

/* B73: p = (.5, .3, .15, .05), drafts uniform, temperature 0.5: tokens follow p squared and normalised. */
static void b73_follows_the_softmax(void **state) {
    (void)state;
    static const double p[4] = {0.5, 0.3, 0.15, 0.05};
    static const float uniform[4] = {0};
    float target[4];
    double expected[4];
    double expected_pairs[16];
    for (int i = 0; i < 4; i++) {
        target[i] = (float)log(p[i]);
        expected[i] = p[i] * p[i] / 0.365;
    }
    for (int i = 0; i < 16; i++) {
        expected_pairs[i] = expected[i / 4] * expected[i % 4];
    }
    struct scene scene = {.vocabulary_size = 4, .target = target, .drafter = uniform};
    scene.sampling = sluice_sampling_default();
    scene.sampling.temperature = 0.5;
    for (int i = 0; i < 2; i++) {
        struct tally tally;
        scene.is_one_hot = i == 1;
        tally_texts(&scene, 5 * DRAWS, &tally);
        assert_draws_follow(expected, tally.first, 4, tally.draws);
        assert_draws_follow(expected_pairs, tally.pairs, 16, tally.draws);
        /* Sampled: 1/4 + 1/4 of the first two, and all of the others'. One-hot: the draft is token 0. */
        assert_rate(tally.accepted, tally.draws,
                    scene.is_one_hot ? expected[0]
                                     : 0.25 + fmin(expected[1], 0.25) + expected[2] + expected[3]);
    }
}

/* B75: a drafter that equals the target is always believed. */
static void equal_distributions_accept(void **state) {
    (void)state;
    struct scene scene = {.vocabulary_size = 16, .target_seed = 5, .drafter_seed = 5};
    struct tally tally;
    scene.sampling = sluice_sampling_default();
    scene.sampling.temperature = 0.7;
    tally_texts(&scene, DRAWS, &tally);
    assert_true(tally.accepted >= DRAWS * 99 / 100);
}

/* Number `number` of the scenes: all combinations of what can be on or off. */
static struct scene random_scene(uint32_t number) {
    static const double temperatures[] = {1.0, 0.6, 1.7};
    struct scene scene = {.vocabulary_size = number % 4 == 3 ? 13 : 4,
                          .target_seed = 1000 + number,
                          .drafter_seed = 2000 + number,
                          .has_masks = (number & 1) != 0,
                          .is_one_hot = (number & 2) != 0,
                          .has_penalties = (number & 4) != 0,
                          .varies_draft_count = number % 5 == 4};
    scene.sampling = sluice_sampling_default();
    scene.sampling.temperature = temperatures[number % 3];
    scene.sampling.top_k = (number & 8) != 0 ? 3 : 0;
    scene.sampling.top_p = (number & 16) != 0 ? 0.85 : 1.0;
    scene.sampling.min_p = number % 7 == 0 ? 0.1 : 0.0;
    if (scene.has_penalties) {
        scene.sampling.repetition_penalty = 1.2;
        scene.sampling.presence_penalty = 0.5;
        scene.sampling.frequency_penalty = number % 2 == 0 ? 0.7 : -0.7;
    }
    return scene;
}

static void every_combination_follows_its_target(void **state) {
    (void)state;
    enum { SCENES = 32 };
    for (uint32_t number = 0; number < SCENES; number++) {
        struct scene scene = random_scene(number);
        check_scene(&scene, DRAWS);
    }
}

static void a_seed_repeats_and_others_differ(void **state) {
    (void)state;
    enum { SEEDS = 1000 };
    struct scene scene = random_scene(0);
    unsigned repeated = 0;
    int32_t previous[TEXT + 1] = {-1, -1};
    assert_int_equal(sampler_workspace_create(scene.vocabulary_size, &scene.workspace), STATUS_OK);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int32_t text[TEXT + 1];
        int32_t again[TEXT + 1];
        bool is_accepted = write_text(&scene, seed, text);
        assert_int_equal(write_text(&scene, seed, again), is_accepted);
        assert_memory_equal(text, again, TEXT * sizeof *text);
        repeated += memcmp(text, previous, TEXT * sizeof *text) == 0;
        memcpy(previous, text, TEXT * sizeof *text);
    }
    sampler_workspace_destroy(&scene.workspace);
    assert_true(repeated < SEEDS / 2);
}

/* Drafts are drawn from the distribution that is told, and that is the drafter's after all rules. */
static void drafts_follow_the_distribution_told(void **state) {
    (void)state;
    enum { SIZE = 13 };
    struct sluice_sampling sampling = sluice_sampling_default();
    struct sampler_workspace *workspace = NULL;
    float logits[SIZE];
    float told[SIZE];
    double probabilities[SIZE];
    unsigned drawn[SIZE] = {0};
    sampling.temperature = 0.8;
    sampling.top_p = 0.9;
    toy_logits(77, 0, 0, false, logits, SIZE);
    for (int i = 0; i < SIZE; i++) {
        logits[i] /= 3.0f;
    }
    assert_int_equal(sampler_workspace_create(SIZE, &workspace), STATUS_OK);
    for (uint32_t position = 0; position < DRAWS; position++) {
        int32_t draft = -1;
        assert_int_equal(acceptance_draft(workspace, &sampling, NULL, logits, DRAFT_SAMPLING_REJECTION, 0,
                                          position, told, &draft),
                         STATUS_OK);
        drawn[draft]++;
    }
    probabilities_by_sorting(&sampling, NULL, NULL, logits, SIZE, probabilities);
    assert_draws_follow(probabilities, drawn, SIZE, DRAWS);
    for (int i = 0; i < SIZE; i++) {
        assert_true(fabs((double)told[i] - probabilities[i]) < 1e-6);
    }
    sampler_workspace_destroy(&workspace);
}

/* At temperature 0 the draft is the likeliest token, and all of the distribution. */
static void greedy_drafts_are_certain(void **state) {
    (void)state;
    struct sluice_sampling sampling = sluice_sampling_default();
    struct sampler_workspace *workspace = NULL;
    float told[4] = {9, 9, 9, 9};
    int32_t draft = -1;
    sampling.temperature = 0.0;
    assert_int_equal(sampler_workspace_create(4, &workspace), STATUS_OK);
    assert_int_equal(acceptance_draft(workspace, &sampling, NULL, (float[]){1, 3, 3, 2},
                                      DRAFT_SAMPLING_REJECTION, 0, 5, told, &draft),
                     STATUS_OK);
    assert_int_equal(draft, 1);
    assert_memory_equal(told, ((float[]){0, 1, 0, 0}), sizeof told);
    sampler_workspace_destroy(&workspace);
}

/* Q is P but for a part too small for its sum; a draft from there is forbidden and no difference is left. */
static void a_correction_without_a_difference_is_allowed(void **state) {
    (void)state;
    const float logits[2][2] = {{0, 0}, {0, 0}};
    const float q[2] = {1.0f, 1e-12f};
    const struct draft_distribution distributions[] = {{q}};
    const token_mask_word mask = 1;
    const token_mask_word *const masks[] = {&mask, &mask};
    const int32_t draft = 1;
    const struct verify_rows rows = {.logits = logits[0],
                                     .drafts = &draft,
                                     .draft_count = 1,
                                     .distributions = distributions,
                                     .masks = masks,
                                     .mode = DRAFT_SAMPLING_REJECTION};
    const struct sluice_sampling sampling = sluice_sampling_default();
    struct sampler_workspace *workspace = NULL;
    int32_t tokens[2];
    int32_t token_count = 0;
    assert_int_equal(sampler_workspace_create(2, &workspace), STATUS_OK);
    assert_int_equal(acceptance_verify(workspace, &sampling, NULL, &rows, tokens, &token_count), STATUS_OK);
    assert_int_equal(token_count, 1);
    assert_int_equal(tokens[0], 0);
    sampler_workspace_destroy(&workspace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b73_follows_the_softmax),
        cmocka_unit_test(equal_distributions_accept),
        cmocka_unit_test(every_combination_follows_its_target),
        cmocka_unit_test(a_seed_repeats_and_others_differ),
        cmocka_unit_test(drafts_follow_the_distribution_told),
        cmocka_unit_test(greedy_drafts_are_certain),
        cmocka_unit_test(a_correction_without_a_difference_is_allowed),
    };
    return cmocka_run_group_tests_name("acceptance_rejection", tests, NULL, NULL);
}
