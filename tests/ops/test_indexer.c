/*
 * Indexer: the Hadamard vector of spec deepseek-v4 4.10, scores with their ReLU and weights, and which
 * entries are kept: against a plain ranking, at every residue of the position, with ties (S-17).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/indexer_rotate.h"
#include "ops/indexer_select.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

enum { WIDTH = 128 };

static void hadamard_vector(float *values, double *expected) {
    for (int i = 0; i < WIDTH; i++) {
        values[i] = (float)i / 64.0f - 1.0f;
        expected[i] = 0.0;
    }
    expected[0] = -0.0883883;
    for (int i = 1; i < WIDTH; i *= 2) {
        expected[i] = -0.0883883476 * i;
    }
}

static void rotate_gives_the_spec_vector(void **state) {
    struct op_fixture *fixture = *state;
    float values[3 * WIDTH] = {0};
    double expected[WIDTH];
    hadamard_vector(values + WIDTH, expected);
    struct indexer_rotate_args args = {.x = OP_TENSOR(fixture, DTYPE_F32, values, 1, 3, WIDTH)};
    OP_RUN(fixture, NUMERICS_IDEAL, indexer_rotate, &args);
    op_fixture_read(fixture, args.x, values);
    op_expect_near("y", values + WIDTH, expected, WIDTH, 1e-6);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(values[i] == 0.0f && values[2 * WIDTH + i] == 0.0f);
    }
}

/* Twice is the identity; the sum of squares stays. */
static void rotate_is_orthogonal(void **state) {
    struct op_fixture *fixture = *state;
    enum { SMALL = 32, HEADS = 4 };
    float values[HEADS * SMALL];
    double original[HEADS * SMALL];
    op_fixture_random_fill(fixture, values, HEADS * SMALL);
    for (int i = 0; i < HEADS * SMALL; i++) {
        original[i] = values[i];
    }
    struct indexer_rotate_args args = {.x = OP_TENSOR(fixture, DTYPE_F32, values, 2, 2, SMALL)};
    OP_RUN(fixture, NUMERICS_IDEAL, indexer_rotate, &args);
    OP_RUN(fixture, NUMERICS_IDEAL, indexer_rotate, &args);
    op_fixture_read(fixture, args.x, values);
    op_expect_near("x", values, original, HEADS * SMALL, 5e-7);
}

/* Native: bf16, then ACT4 in groups of 32, as the keys are stored. */
static void native_rotate_rounds_like_keys(void **state) {
    struct op_fixture *fixture = *state;
    float values[WIDTH];
    float actual[WIDTH];
    double unused[WIDTH];
    hadamard_vector(values, unused);
    values[3] += 1.5f;
    for (int i = 0; i < WIDTH; i++) {
        values[i] = bf16_round(values[i]);
    }
    struct indexer_rotate_args args = {.x = OP_TENSOR(fixture, DTYPE_BF16, values, 1, 1, WIDTH)};
    OP_RUN(fixture, NUMERICS_NATIVE, indexer_rotate, &args);
    op_fixture_read(fixture, args.x, actual);
    float expected[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        double sum = 0.0;
        for (int j = 0; j < WIDTH; j++) {
            sum += __builtin_parity((unsigned)(i & j)) ? -values[j] : values[j];
        }
        expected[i] = bf16_round((float)(sum / sqrt(WIDTH)));
    }
    act4_round(expected, WIDTH, 32);
    assert_memory_equal(actual, expected, sizeof expected);
}

/* Queries of one row and what is needed to select. Keys lie in slot 1. */
struct choice {
    struct op_fixture *fixture;
    enum dtype dtype;
    int64_t heads;
    int64_t width;
    const float *queries; /* (heads, width) */
    const float *weights; /* (heads) */
    struct state_rows keys;
    int32_t position;
    int64_t ratio;
    int64_t limit;
    float weight_scale;
};

static void choose(const struct choice *choice, int32_t *selection) {
    struct op_fixture *fixture = choice->fixture;
    struct batch_view batch =
        op_fixture_batch(fixture, &(struct op_segment){1, choice->position, 1}, 1, NULL);
    struct tensor out = {.dtype = DTYPE_I32, .rank = 2, .shape = {1, choice->limit}};
    out.data = op_fixture_upload(fixture, NULL, (size_t)choice->limit * sizeof *selection);
    struct indexer_select_args args = {
        .selection = out,
        .queries = OP_TENSOR(fixture, choice->dtype, choice->queries, 1, choice->heads, choice->width),
        .head_weights = OP_TENSOR(fixture, choice->dtype, choice->weights, 1, choice->heads),
        .keys = choice->keys,
        .batch = &batch,
        .ratio = choice->ratio,
        .weight_scale = choice->weight_scale,
    };
    OP_RUN(fixture, choice->dtype == DTYPE_F32 ? NUMERICS_IDEAL : NUMERICS_NATIVE, indexer_select, &args);
    op_fixture_read_integers(fixture, out, selection);
}

static struct state_rows float_keys(struct op_fixture *fixture, int64_t width, const float *keys,
                                    int64_t count) {
    struct row_layout layout = {.encoding = ROW_F32, .width = width};
    struct state_rows state = op_fixture_entries(fixture, layout, count + 2, 2);
    for (int64_t j = 0; j < count; j++) {
        op_fixture_state_write(fixture, &state, 1, j, keys + j * width);
    }
    return state;
}

/* Field report B09: products (+1, +1) of key 0 and (+3, -3) of key 1. */
static void products_pass_a_relu_before_the_weights(void **state) {
    const float keys[4] = {1, 1, 3, -3};
    const float queries[4] = {1, 0, 0, 1};
    const float weights[5][2] = {{1, 1}, {0.25f, 1}, {0.5f, 1}, {-1, 1}, {-1, -1}};
    const int32_t winners[5] = {1, 0, 0, 0, 0};
    struct choice choice = {.fixture = *state,
                            .dtype = DTYPE_F32,
                            .heads = 2,
                            .width = 2,
                            .queries = queries,
                            .position = 7,
                            .ratio = 4,
                            .limit = 1,
                            .weight_scale = 1.0f};
    choice.keys = float_keys(*state, 2, keys, 2);
    for (int n = 0; n < 5; n++) {
        int32_t selected;
        choice.weights = weights[n];
        choose(&choice, &selected);
        assert_int_equal(selected, winners[n]);
    }
}

/* Scores may be negative: the largest by signed value is kept, an entry that the ReLU silences counts 0. */
static void negative_scores_are_ranked_by_value(void **state) {
    const float keys[4] = {3, 1, -5, 2};
    const float query = 1;
    const float weight = -1;
    struct choice choice = {.fixture = *state,
                            .dtype = DTYPE_F32,
                            .heads = 1,
                            .width = 1,
                            .queries = &query,
                            .weights = &weight,
                            .position = 7,
                            .ratio = 2,
                            .limit = 2,
                            .weight_scale = 0.5f};
    choice.keys = float_keys(*state, 1, keys, 4);
    int32_t selection[2];
    choose(&choice, selection);
    assert_int_equal(selection[0], 1);
    assert_int_equal(selection[1], 2);
}

/*
 * weights * scale is rounded to the activation type: 1.9921875 and 1.984375 times 0.51 are both 1.015625 in
 * bf16, so the scores tie there and only there.
 */
static void weights_are_rounded_after_the_scale(void **state) {
    const float keys[4] = {0, 1, 1, 0};
    const float queries[4] = {1, 0, 0, 1};
    const float weights[2] = {1.9921875f, 1.984375f};
    struct choice choice = {.fixture = *state,
                            .dtype = DTYPE_F32,
                            .heads = 2,
                            .width = 2,
                            .queries = queries,
                            .weights = weights,
                            .position = 7,
                            .ratio = 4,
                            .limit = 1,
                            .weight_scale = 0.51f};
    choice.keys = float_keys(*state, 2, keys, 2);
    int32_t selected;
    choose(&choice, &selected);
    assert_int_equal(selected, 1);
    choice.dtype = DTYPE_BF16;
    choose(&choice, &selected);
    assert_int_equal(selected, 0);
}

/* Field report B03: (t + 1) / ratio entries are visible; what lies behind them is NaN here. */
static void only_finished_blocks_are_seen(void **state) {
    const float one = 1;
    float keys[8];
    for (int j = 0; j < 8; j++) {
        keys[j] = (float)(j + 1);
    }
    for (int32_t position = 0; position < 22; position++) {
        int visible = (position + 1) / 4;
        struct choice choice = {.fixture = *state,
                                .dtype = DTYPE_F32,
                                .heads = 1,
                                .width = 1,
                                .queries = &one,
                                .weights = &one,
                                .position = position,
                                .ratio = 4,
                                .weight_scale = 1.0f};
        choice.keys = float_keys(*state, 1, keys, visible);
        int32_t selection[8];
        choice.limit = 8;
        choose(&choice, selection);
        for (int j = 0; j < 8; j++) {
            assert_int_equal(selection[j], j < visible ? j : -1);
        }
        /* The best three are the last three, in ascending order. */
        choice.limit = 3;
        choose(&choice, selection);
        int kept = visible < 3 ? visible : 3;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(selection[i], i < kept ? visible - kept + i : -1);
        }
    }
}

/* The plain ranking: an entry is kept if fewer than `limit` others are better, or equal and before it. */
static void plain_selection(const float *scores, int visible, int limit, int32_t *selection) {
    int count = 0;
    for (int j = 0; j < visible; j++) {
        int better = 0;
        for (int i = 0; i < visible; i++) {
            better += scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
        }
        if (better < limit) {
            selection[count++] = j;
        }
    }
    while (count < limit) {
        selection[count++] = -1;
    }
}

/* Limits below, at and above the number of visible entries, with many equal scores. */
static void selection_agrees_with_a_plain_ranking(void **state) {
    struct op_fixture *fixture = *state;
    enum { ENTRIES = 23 };
    const float one = 1;
    size_t mark = op_fixture_mark(fixture);
    for (int round = 0; round < 12; round++) {
        int levels = round < 6 ? 3 : 40; /* the first rounds tie a lot; round 0 ties all */
        float keys[ENTRIES];
        for (int j = 0; j < ENTRIES; j++) {
            keys[j] = round == 0 ? 2.0f : floorf((op_fixture_random(fixture) + 1.0f) * (float)levels);
        }
        struct choice choice = {.fixture = fixture,
                                .dtype = DTYPE_F32,
                                .heads = 1,
                                .width = 1,
                                .queries = &one,
                                .weights = &one,
                                .position = ENTRIES - 1,
                                .ratio = 1,
                                .weight_scale = 1.0f};
        for (int limit = 1; limit <= ENTRIES + 2; limit++) {
            int32_t selection[ENTRIES + 2];
            int32_t expected[ENTRIES + 2];
            choice.keys = float_keys(fixture, 1, keys, ENTRIES);
            choice.limit = limit;
            choose(&choice, selection);
            plain_selection(keys, ENTRIES, limit, expected);
            assert_memory_equal(selection, expected, (size_t)limit * sizeof *selection);
            op_fixture_release(fixture, mark);
        }
    }
}

/* Several heads and FP4 keys: scores in double from what the rows decode to. */
static void scores_follow_the_formula(void **state) {
    struct op_fixture *fixture = *state;
    enum { HEADS = 3, ENTRIES = 40, LIMIT = 9, KEY_WIDTH = 64 };
    float queries[HEADS * KEY_WIDTH];
    float weights[HEADS];
    float scores[ENTRIES];
    struct row_layout layout = numerics_row_layout(NUMERICS_NATIVE, ROW_KIND_INDEX, KEY_WIDTH, 0);
    struct choice choice = {.fixture = fixture,
                            .dtype = DTYPE_BF16,
                            .heads = HEADS,
                            .width = KEY_WIDTH,
                            .queries = queries,
                            .weights = weights,
                            .position = 4 * ENTRIES + 2,
                            .ratio = 4,
                            .limit = LIMIT,
                            .weight_scale = 0.0625f};
    for (int i = 0; i < HEADS * KEY_WIDTH; i++) {
        queries[i] = bf16_round(op_fixture_random(fixture));
    }
    for (int h = 0; h < HEADS; h++) {
        weights[h] = bf16_round(op_fixture_random(fixture));
    }
    choice.keys = op_fixture_entries(fixture, layout, ENTRIES, 2);
    for (int j = 0; j < ENTRIES; j++) {
        float key[KEY_WIDTH];
        op_fixture_random_fill(fixture, key, KEY_WIDTH);
        op_fixture_state_write(fixture, &choice.keys, 1, j, key);
        act4_round(key, KEY_WIDTH, 32);
        double score = 0.0;
        for (int h = 0; h < HEADS; h++) {
            double product = 0.0;
            for (int i = 0; i < KEY_WIDTH; i++) {
                product += (double)queries[h * KEY_WIDTH + i] * (double)key[i];
            }
            score += fmax(product, 0.0) * weights[h] * 0.0625;
        }
        scores[j] = (float)score;
    }
    int32_t selection[LIMIT];
    int32_t expected[LIMIT];
    choose(&choice, selection);
    plain_selection(scores, ENTRIES, LIMIT, expected);
    assert_memory_equal(selection, expected, sizeof expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(rotate_gives_the_spec_vector),        OP_TEST(rotate_is_orthogonal),
        OP_TEST(native_rotate_rounds_like_keys),      OP_TEST(products_pass_a_relu_before_the_weights),
        OP_TEST(negative_scores_are_ranked_by_value), OP_TEST(weights_are_rounded_after_the_scale),
        OP_TEST(only_finished_blocks_are_seen),       OP_TEST(selection_agrees_with_a_plain_ranking),
        OP_TEST(scores_follow_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
