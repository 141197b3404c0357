/*
 * Acceptance where its tokens are known: greedy by hand, coupled against sampling one row at a time, errors,
 * and what must be left alone. Distributions are in test_acceptance_rejection.c.
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

enum { VOCABULARY = 70, MASK_WORDS = VOCABULARY / 32 + 1, DRAFTS_MAX = 4, ROWS_MAX = DRAFTS_MAX + 1 };

static struct sampler_workspace *create_workspace(size_t vocabulary_size) {
    struct sampler_workspace *workspace = NULL;
    assert_int_equal(sampler_workspace_create(vocabulary_size, &workspace), STATUS_OK);
    return workspace;
}

static struct sluice_sampling greedy(void) {
    struct sluice_sampling sampling = sluice_sampling_default();
    sampling.temperature = 0.0;
    return sampling;
}

/* Four tokens; the largest logits of the rows are those of tokens 2, 1 (a tie with 3), 0 and 3. */
static const float hand_rows[4][4] = {{0, 1, 5, 2}, {0, 3, 1, 3}, {-1, -2, -3, -4}, {1, 1, 1, 2}};

static void check_hand(const int32_t *drafts, int32_t draft_count, const int32_t *expected,
                       int32_t expected_count) {
    struct sampler_workspace *workspace = create_workspace(4);
    const struct sluice_sampling sampling = greedy();
    struct verify_rows rows = {.logits = hand_rows[0], .drafts = drafts, .draft_count = draft_count};
    for (int mode = DRAFT_SAMPLING_COUPLED; mode <= DRAFT_SAMPLING_REJECTION; mode++) {
        int32_t tokens[4];
        int32_t token_count = -1;
        rows.mode = (enum draft_sampling)mode;
        assert_int_equal(acceptance_verify(workspace, &sampling, NULL, &rows, tokens, &token_count),
                         STATUS_OK);
        assert_int_equal(token_count, expected_count);
        assert_memory_equal(tokens, expected, (size_t)expected_count * sizeof *tokens);
    }
    sampler_workspace_destroy(&workspace);
}

static void greedy_by_hand(void **state) {
    (void)state;
    check_hand(NULL, 0, (int32_t[]){2}, 1);
    check_hand((int32_t[]){2, 1, 0}, 3, (int32_t[]){2, 1, 0, 3}, 4);
    check_hand((int32_t[]){2, 1}, 2, (int32_t[]){2, 1, 0}, 3);
    check_hand((int32_t[]){2, 1, 3}, 3, (int32_t[]){2, 1, 0}, 3);
    /* The higher id of two equal logits is refused, and what follows it does not count even if it matches. */
    check_hand((int32_t[]){2, 3, 0}, 3, (int32_t[]){2, 1}, 2);
    check_hand((int32_t[]){1, 1, 0}, 3, (int32_t[]){2}, 1);
}

/* At temperature 0 a distribution of drafts changes nothing, not even one that is sure of another token. */
static void greedy_ignores_the_distribution_of_drafts(void **state) {
    (void)state;
    struct sampler_workspace *workspace = create_workspace(4);
    struct sluice_sampling sampling = greedy();
    static const float q[4] = {1e-12f, 0.25f, 1.0f, 0.25f};
    const struct draft_distribution distributions[3] = {{q}, {q}, {q}};
    for (int32_t draft = 0; draft < 4; draft++) {
        const int32_t drafts[3] = {2, draft, 0};
        const struct verify_rows rows = {.logits = hand_rows[0],
                                         .drafts = drafts,
                                         .draft_count = 3,
                                         .distributions = distributions,
                                         .mode = DRAFT_SAMPLING_REJECTION};
        for (sampling.seed = 0; sampling.seed < 50; sampling.seed++) {
            int32_t tokens[4];
            int32_t token_count = -1;
            assert_int_equal(acceptance_verify(workspace, &sampling, NULL, &rows, tokens, &token_count),
                             STATUS_OK);
            assert_int_equal(token_count, draft == 1 ? 4 : 2);
            assert_memory_equal(tokens, ((int32_t[]){2, 1, 0, 3}), (size_t)token_count * sizeof *tokens);
        }
    }
    sampler_workspace_destroy(&workspace);
}

enum { TEXT = 24, FIRST_POSITION = 9, CHOICE = 3 };

/* A request: toy model and grammar, options, and the text of one row at a time. */
struct scene {
    uint32_t seed;
    bool is_coarse;
    bool has_masks;
    struct sluice_sampling sampling;
    struct sampler_workspace *workspace;
    int32_t text[1 + TEXT + ROWS_MAX]; /* the first is the prompt's */
};

static void init_counts(const struct scene *scene, struct token_counts *counts) {
    assert_int_equal(token_counts_init(counts, VOCABULARY), STATUS_OK);
    assert_int_equal(token_counts_add_prompt(counts, scene->text, 1), STATUS_OK);
}

/* The row after `previous`, whose token will be number `index` of the text. */
static void make_row(const struct scene *scene, int32_t previous, int index, float *logits,
                     token_mask_word *mask) {
    toy_logits(scene->seed, previous, (uint32_t)index, scene->is_coarse, logits, VOCABULARY);
    toy_mask(scene->seed, previous, (uint32_t)index, mask, VOCABULARY);
}

static void write_text_plainly(struct scene *scene) {
    struct token_counts counts;
    init_counts(scene, &counts);
    for (int i = 1; i < 1 + TEXT + ROWS_MAX; i++) {
        float logits[VOCABULARY];
        token_mask_word mask[MASK_WORDS];
        make_row(scene, scene->text[i - 1], i, logits, mask);
        assert_int_equal(sampler_choose_token(scene->workspace, &scene->sampling, &counts,
                                              scene->has_masks ? mask : NULL, logits, CHOICE,
                                              FIRST_POSITION + (uint32_t)i, NOISE_PURPOSE_TOKEN,
                                              &scene->text[i]),
                         STATUS_OK);
        assert_int_equal(token_counts_add_output(&counts, scene->text[i]), STATUS_OK);
    }
    token_counts_deinit(&counts);
}

static void init_scene(struct scene *scene, uint32_t number, struct sampler_workspace *workspace) {
    uint32_t random = number;
    *scene = (struct scene){.seed = number,
                            .is_coarse = number % 3 == 0,
                            .has_masks = number % 2 == 0,
                            .sampling = random_sampling(&random),
                            .workspace = workspace};
    if (number % 8 >= 6) {
        scene->sampling.temperature = 0.0;
    }
    write_text_plainly(scene);
}

/*
 * Verifies `draft_count` drafts for the text from number `first` on, of which the first `right_count` are
 * right and the next is wrong; returns how many tokens came. Rows after the wrong one hold nonsense: no
 * numbers, a mask that allows nothing, drafts that are no tokens.
 */
static int32_t verify_at(const struct scene *scene, struct token_counts *counts, int first,
                         int32_t draft_count, int32_t right_count, uint32_t *random) {
    static const token_mask_word allows_nothing[MASK_WORDS];
    float logits[ROWS_MAX][VOCABULARY];
    token_mask_word mask_words[ROWS_MAX][MASK_WORDS];
    const token_mask_word *masks[ROWS_MAX];
    int32_t drafts[DRAFTS_MAX];
    for (int32_t row = 0; row <= draft_count; row++) {
        int32_t right = scene->text[first + row];
        masks[row] = scene->has_masks ? mask_words[row] : NULL;
        if (row <= right_count) {
            make_row(scene, scene->text[first + row - 1], first + row, logits[row], mask_words[row]);
        } else {
            for (int i = 0; i < VOCABULARY; i++) {
                logits[row][i] = NAN;
            }
            masks[row] = allows_nothing;
        }
        if (row < draft_count) {
            int32_t wrong = (right + 1 + (int32_t)(random_next(random) % (VOCABULARY - 1))) % VOCABULARY;
            drafts[row] = row < right_count ? right : row == right_count ? wrong : -1;
        }
    }
    const struct verify_rows rows = {.logits = logits[0],
                                     .drafts = drafts,
                                     .draft_count = draft_count,
                                     .masks = scene->has_masks || right_count < draft_count ? masks : NULL,
                                     .mode = scene->sampling.temperature == 0.0 && scene->seed % 2 == 0
                                                 ? DRAFT_SAMPLING_REJECTION
                                                 : DRAFT_SAMPLING_COUPLED,
                                     .choice_index = CHOICE,
                                     .first_position = FIRST_POSITION + (uint32_t)first};
    int32_t tokens[ROWS_MAX];
    int32_t token_count = -1;
    assert_int_equal(
        acceptance_verify(scene->workspace, &scene->sampling, counts, &rows, tokens, &token_count),
        STATUS_OK);
    assert_int_equal(token_count, right_count + 1);
    assert_memory_equal(tokens, scene->text + first, (size_t)token_count * sizeof *tokens);
    return token_count;
}

/* M-15, M-16, M-18, M-19: whatever is drafted, the text is that of one row at a time. */
static void coupled_text_equals_plain_text(void **state) {
    (void)state;
    enum { SCENES = 2000 };
    struct sampler_workspace *workspace = create_workspace(VOCABULARY);
    uint32_t random = 1;
    unsigned seen[ROWS_MAX][ROWS_MAX] = {0};
    for (uint32_t number = 0; number < SCENES; number++) {
        struct scene scene;
        struct token_counts counts;
        struct token_counts expected;
        init_scene(&scene, number, workspace);
        init_counts(&scene, &counts);
        init_counts(&scene, &expected);
        int end = 1;
        while (end <= TEXT) {
            int32_t draft_count = (int32_t)(random_next(&random) % ROWS_MAX);
            int32_t right_count = (int32_t)(random_next(&random) % (unsigned)(draft_count + 1));
            end += verify_at(&scene, &counts, end, draft_count, right_count, &random);
            seen[draft_count][right_count]++;
        }
        for (int i = 1; i < end; i++) {
            assert_int_equal(token_counts_add_output(&expected, scene.text[i]), STATUS_OK);
        }
        assert_memory_equal(counts.output_counts, expected.output_counts,
                            VOCABULARY * sizeof *counts.output_counts);
        token_counts_deinit(&counts);
        token_counts_deinit(&expected);
    }
    for (int i = 0; i < ROWS_MAX; i++) {
        for (int j = 0; j <= i; j++) {
            assert_true(seen[i][j] > 100);
        }
    }
    sampler_workspace_destroy(&workspace);
}

/* A drafter that has the verifying row's logits chooses its token, in every mode that is deterministic. */
static void equal_logits_draft_the_verified_token(void **state) {
    (void)state;
    struct sampler_workspace *workspace = create_workspace(VOCABULARY);
    for (uint32_t number = 1; number < 1000; number += 2) {
        struct scene scene;
        struct token_counts counts;
        init_scene(&scene, number, workspace);
        init_counts(&scene, &counts);
        for (int i = 1; i <= TEXT; i++) {
            float logits[VOCABULARY];
            float untouched = -7.0f;
            token_mask_word mask[MASK_WORDS];
            int32_t draft = -1;
            make_row(&scene, scene.text[i - 1], i, logits, mask);
            assert_int_equal(acceptance_draft(workspace, &scene.sampling, &counts, logits,
                                              DRAFT_SAMPLING_COUPLED, CHOICE, FIRST_POSITION + (uint32_t)i,
                                              &untouched, &draft),
                             STATUS_OK);
            assert_int_equal(draft, scene.text[i]);
            assert_true(untouched == -7.0f);
            assert_int_equal(token_counts_add_output(&counts, draft), STATUS_OK);
        }
        token_counts_deinit(&counts);
    }
    sampler_workspace_destroy(&workspace);
}

/* Rejection without drafts draws as plain sampling does; a draft that is all of Q is the likeliest token. */
static void rejection_without_drafts_is_plain(void **state) {
    (void)state;
    struct sampler_workspace *workspace = create_workspace(VOCABULARY);
    for (uint32_t number = 0; number < 500; number++) {
        struct scene scene;
        struct token_counts counts;
        float logits[VOCABULARY];
        token_mask_word mask[MASK_WORDS];
        init_scene(&scene, number, workspace);
        init_counts(&scene, &counts);
        make_row(&scene, scene.text[0], 1, logits, mask);
        const token_mask_word *const masks[] = {scene.has_masks ? mask : NULL};
        const struct verify_rows rows = {.logits = logits,
                                         .masks = masks,
                                         .mode = DRAFT_SAMPLING_REJECTION,
                                         .choice_index = CHOICE,
                                         .first_position = FIRST_POSITION + 1};
        int32_t token = -1;
        int32_t token_count = -1;
        assert_int_equal(acceptance_verify(workspace, &scene.sampling, &counts, &rows, &token, &token_count),
                         STATUS_OK);
        assert_int_equal(token_count, 1);
        assert_int_equal(token, scene.text[1]);
        token_counts_deinit(&counts);
    }
    sampler_workspace_destroy(&workspace);
}

/* M-20, B70: logits, and so the log-probabilities of a row, are the same after acceptance. */
static void logits_are_left_alone(void **state) {
    (void)state;
    struct sampler_workspace *workspace = create_workspace(4);
    const struct sluice_logit_bias bias = {1, 3.0f};
    struct sluice_sampling sampling = sluice_sampling_default();
    sampling.repetition_penalty = 1.5;
    sampling.presence_penalty = 0.5;
    sampling.logit_bias = &bias;
    sampling.logit_bias_count = 1;
    const token_mask_word mask = 1u << 1 | 1u << 2;
    const token_mask_word *const masks[] = {&mask, &mask, &mask, &mask};
    float logits[4][4];
    memcpy(logits, hand_rows, sizeof logits);
    for (int mode = DRAFT_SAMPLING_COUPLED; mode <= DRAFT_SAMPLING_REJECTION; mode++) {
        struct token_counts counts;
        assert_int_equal(token_counts_init(&counts, 4), STATUS_OK);
        const int32_t drafts[] = {1, 1, 1};
        const struct verify_rows rows = {.logits = logits[0],
                                         .drafts = drafts,
                                         .draft_count = 3,
                                         .masks = masks,
                                         .mode = (enum draft_sampling)mode};
        int32_t tokens[4];
        int32_t token_count = 0;
        assert_int_equal(acceptance_verify(workspace, &sampling, &counts, &rows, tokens, &token_count),
                         STATUS_OK);
        assert_memory_equal(logits, hand_rows, sizeof logits);
        struct token_log_probability chosen;
        assert_int_equal(sampler_log_probabilities(logits[0], 4, tokens[0], 0, &chosen, NULL), STATUS_OK);
        double total = exp(0.0) + exp(1.0) + exp(5.0) + exp(2.0);
        assert_true(fabs(chosen.log_probability - ((double)hand_rows[0][tokens[0]] - log(total))) < 1e-12);
        token_counts_deinit(&counts);
    }
    sampler_workspace_destroy(&workspace);
}

/* Verifies drafts 2, 1, 0, all right, on rows of which row 2 is broken in one way. */
static void assert_fails_at_row_2(struct verify_rows rows, enum status expected, const char *said) {
    struct sampler_workspace *workspace = create_workspace(4);
    const struct sluice_sampling sampling = greedy();
    struct token_counts counts;
    int32_t tokens[4];
    int32_t token_count = -1;
    assert_int_equal(token_counts_init(&counts, 4), STATUS_OK);
    rows.draft_count = 3;
    rows.first_position = 10;
    assert_int_equal(acceptance_verify(workspace, &sampling, &counts, &rows, tokens, &token_count), expected);
    if (strstr(error_last()->message, said) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error_last()->message, said);
    }
    /* What came before stays chosen, and counted. */
    assert_int_equal(token_count, 2);
    assert_memory_equal(tokens, ((int32_t[]){2, 1}), 2 * sizeof *tokens);
    assert_memory_equal(counts.output_counts, ((uint32_t[]){0, 1, 1, 0}), 4 * sizeof(uint32_t));
    token_counts_deinit(&counts);
    sampler_workspace_destroy(&workspace);
}

static void a_broken_row_is_an_error_after_the_tokens_before_it(void **state) {
    (void)state;
    const int32_t drafts[] = {2, 1, 0};
    const struct verify_rows rows = {.logits = hand_rows[0], .drafts = drafts};
    float damaged[4][4];
    memcpy(damaged, hand_rows, sizeof damaged);
    damaged[2][3] = NAN;
    struct verify_rows changed = rows;
    changed.logits = damaged[0];
    assert_fails_at_row_2(changed, STATUS_NOT_FINITE, "token 3");

    const token_mask_word all = 15;
    const token_mask_word none = 16;
    const token_mask_word *const masks[] = {&all, NULL, &none, &all};
    changed = rows;
    changed.masks = masks;
    assert_fails_at_row_2(changed, STATUS_UNSUPPORTED, "position 12");

    static const int32_t outside[2][3] = {{2, 1, 4}, {2, 1, -1}};
    changed = rows;
    for (int i = 0; i < 2; i++) {
        changed.drafts = outside[i];
        assert_fails_at_row_2(changed, STATUS_OUT_OF_RANGE, "draft 2 is token");
    }

    static const float impossible[2][4] = {{0.0f, 0.5f, 0.25f, 0.25f}, {NAN, 0.5f, 0.25f, 0.25f}};
    changed = rows;
    changed.mode = DRAFT_SAMPLING_REJECTION;
    for (int i = 0; i < 2; i++) {
        const struct draft_distribution distributions[] = {{NULL}, {NULL}, {impossible[i]}};
        changed.distributions = distributions;
        assert_fails_at_row_2(changed, STATUS_BAD_ARGUMENT, "draft 2, token 0");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_by_hand),
        cmocka_unit_test(greedy_ignores_the_distribution_of_drafts),
        cmocka_unit_test(coupled_text_equals_plain_text),
        cmocka_unit_test(equal_logits_draft_the_verified_token),
        cmocka_unit_test(rejection_without_drafts_is_plain),
        cmocka_unit_test(logits_are_left_alone),
        cmocka_unit_test(a_broken_row_is_an_error_after_the_tokens_before_it),
    };
    return cmocka_run_group_tests_name("acceptance", tests, NULL, NULL);
}
