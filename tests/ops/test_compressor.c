/*
 * Compressor: the two vectors of spec deepseek-v4 4.9, equal bytes however a sequence is cut into steps,
 * entries only where a block ends, rotation at the block's first position.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/commit_rows.h"
#include "ops/compress_entries.h"
#include "ops/compressor_rows.h"
#include "support/op_fixture.h"
#include "tensor/quantize.h"

/* A compressor with its state, and what it shares between steps. */
struct compressor {
    struct op_fixture *fixture;
    enum numerics numerics;
    int64_t width;
    int64_t ratio;
    bool has_overlap;
    bool has_hadamard;
    struct weight bias;
    struct weight norm;
    struct rope_table rope;
    struct state_rows ring;
    struct state_rows entries;
    int32_t slot;
    int64_t spare_rows; /* of the ring, beyond the shortest one that the contract allows */
    size_t mark;        /* of the fixture's memory, before the state */
};

static int64_t raw_width(const struct compressor *compressor) {
    return compressor->has_overlap ? 2 * compressor->width : compressor->width;
}

/* Fresh state, in place of the last one. */
static void reset(struct compressor *compressor, struct row_layout layout, int64_t entry_count) {
    op_fixture_release(compressor->fixture, compressor->mark);
    struct row_layout raw = {.encoding = ROW_F32, .width = 2 * raw_width(compressor)};
    int64_t rows = compressor->ratio * (compressor->has_overlap ? 2 : 1) + compressor->spare_rows;
    compressor->ring = op_fixture_ring(compressor->fixture, raw, rows, 2);
    compressor->entries = op_fixture_entries(compressor->fixture, layout, entry_count, 2);
}

/* One step: values and scores (count, raw width) of positions first.. . */
static void step(const struct compressor *compressor, int32_t first, int32_t count, const float *values,
                 const float *scores) {
    struct op_fixture *fixture = compressor->fixture;
    int64_t width = raw_width(compressor);
    struct op_segment segment = {compressor->slot, first, count};
    struct batch_view batch = op_fixture_batch(fixture, &segment, 1, NULL);
    struct compressor_rows_args rows = {
        .out = OP_TENSOR(fixture, DTYPE_F32, NULL, count, 2 * width),
        .values = OP_TENSOR(fixture, DTYPE_F32, values, count, width),
        .scores = OP_TENSOR(fixture, DTYPE_F32, scores, count, width),
        .bias = &compressor->bias,
        .positions = batch.positions,
    };
    struct compress_entries_args args = {
        .raw = {.rows = rows.out.data, .ring = compressor->ring},
        .entries = compressor->entries,
        .batch = &batch,
        .norm = &compressor->norm,
        .rope = &compressor->rope,
        .rounding = numerics_activation_dtype(compressor->numerics),
        .ratio = compressor->ratio,
        .width = compressor->width,
        .has_overlap = compressor->has_overlap,
        .has_hadamard = compressor->has_hadamard,
        .epsilon = 1e-6f,
    };
    struct commit_rows_args commit = {.chunk = args.raw, .batch = &batch};
    OP_RUN(fixture, compressor->numerics, compressor_rows, &rows);
    OP_RUN(fixture, compressor->numerics, compress_entries, &args);
    OP_RUN(fixture, compressor->numerics, commit_rows, &commit);
}

/* A second channel that pools to 30 everywhere undoes the norm: pooled value = 30 * out[0] / out[1]. */
static double pooled(const struct compressor *compressor, int64_t entry) {
    float values[2];
    op_fixture_state_read(compressor->fixture, &compressor->entries, compressor->slot, entry, values);
    return 30.0 * values[0] / values[1];
}

static void expect_pooled(const struct compressor *compressor, int64_t entry, double expected) {
    double actual = pooled(compressor, entry);
    if (!(fabs(actual - expected) <= 4e-6)) {
        fail_msg("entry %lld pools to %.9g, expected %.9g", (long long)entry, actual, expected);
    }
}

static void overlap_vector_of_the_spec(void **state) {
    struct op_fixture *fixture = *state;
    const float score[8][2] = {{.1f, .2f}, {0, -.1f},  {.3f, .1f},  {-.2f, .4f},
                               {.2f, 0},   {.1f, .1f}, {-.3f, .2f}, {.4f, -.4f}};
    const float ape[4][2] = {{.5f, -.5f}, {.25f, 0}, {0, .25f}, {-.25f, .5f}};
    float values[8][4];
    float scores[8][4];
    float bias[4][4];
    const float ones[2] = {1, 1};
    /* Channels of a half: the vector's, then the constant one. */
    for (int t = 0; t < 8; t++) {
        for (int half = 0; half < 2; half++) {
            values[t][2 * half] = (float)((t + 1) * (half == 0 ? 1 : 10));
            values[t][2 * half + 1] = 30.0f;
            scores[t][2 * half] = scores[t][2 * half + 1] = score[t][half];
            bias[t % 4][2 * half] = bias[t % 4][2 * half + 1] = ape[t % 4][half];
        }
    }
    struct compressor compressor = {.fixture = fixture,
                                    .numerics = NUMERICS_IDEAL,
                                    .width = 2,
                                    .ratio = 4,
                                    .has_overlap = true,
                                    .slot = 1};
    compressor.bias = op_fixture_plain(fixture, DTYPE_F32, 4, 4, bias[0]);
    compressor.norm = op_fixture_plain(fixture, DTYPE_F32, 1, 2, ones);
    compressor.mark = op_fixture_mark(fixture);
    reset(&compressor, (struct row_layout){.encoding = ROW_F32, .width = 2}, 3);
    step(&compressor, 0, 8, values[0], scores[0]);
    expect_pooled(&compressor, 0, 30.1323768);
    expect_pooled(&compressor, 1, 32.2637952);
}

static void plain_vector_of_the_spec(void **state) {
    struct op_fixture *fixture = *state;
    const float values[4][2] = {{1, 30}, {2, 30}, {3, 30}, {4, 30}};
    const float scores[4][2] = {{.1f, 0}, {-.2f, 0}, {.3f, 0}, {0, 0}};
    const float bias[4][2] = {{.5f, 0}, {.25f, 0}, {0, 0}, {-.25f, 0}};
    const float ones[2] = {1, 1};
    struct compressor compressor = {.fixture = fixture, .numerics = NUMERICS_IDEAL, .width = 2, .ratio = 4};
    compressor.bias = op_fixture_plain(fixture, DTYPE_F32, 4, 2, bias[0]);
    compressor.norm = op_fixture_plain(fixture, DTYPE_F32, 1, 2, ones);
    compressor.mark = op_fixture_mark(fixture);
    reset(&compressor, (struct row_layout){.encoding = ROW_F32, .width = 2}, 1);
    step(&compressor, 0, 4, values[0], scores[0]);
    expect_pooled(&compressor, 0, 2.2169794);
}

/* Scores that would overflow without the maximum taken out, of each row's own half of the channels. */
static void large_scores_pool_to_their_value(void **state) {
    struct op_fixture *fixture = *state;
    const float values[4][4] = {{1, 30, 7, 30}, {2, 30, 9, 30}, {3, 30, 8, 30}, {4, 30, 6, 30}};
    const float scores[4][4] = {{-5000, -5000, 5000, 5000}, {5000, 5000, -5000, -5000}, {0}, {0}};
    const float zeros[8] = {0};
    const float ones[2] = {1, 1};
    struct compressor compressor = {
        .fixture = fixture, .numerics = NUMERICS_IDEAL, .width = 2, .ratio = 2, .has_overlap = true};
    compressor.bias = op_fixture_plain(fixture, DTYPE_F32, 2, 4, zeros);
    compressor.norm = op_fixture_plain(fixture, DTYPE_F32, 1, 2, ones);
    compressor.mark = op_fixture_mark(fixture);
    reset(&compressor, (struct row_layout){.encoding = ROW_F32, .width = 2}, 2);
    step(&compressor, 0, 4, values[0], scores[0]);
    expect_pooled(&compressor, 0, 7.0); /* token 0, second half */
    expect_pooled(&compressor, 1, 2.0); /* token 1, first half */
}

enum { TOKENS = 22, ENTRIES_MAX = 8, WIDTH_MAX = 64 };

struct inputs {
    float values[TOKENS][2 * WIDTH_MAX];
    float scores[TOKENS][2 * WIDTH_MAX];
};

/* A random compressor whose raw rows are as wide as struct inputs. */
static struct compressor random_compressor(struct op_fixture *fixture, enum numerics numerics, int64_t ratio,
                                           bool has_overlap, bool is_index) {
    struct compressor compressor = {.fixture = fixture,
                                    .numerics = numerics,
                                    .width = has_overlap ? WIDTH_MAX : 2 * WIDTH_MAX,
                                    .ratio = ratio,
                                    .has_overlap = has_overlap,
                                    .has_hadamard = is_index,
                                    .slot = 1};
    float values[8 * 2 * WIDTH_MAX];
    op_fixture_random_fill(fixture, values, ratio * 2 * WIDTH_MAX);
    compressor.bias = op_fixture_plain(fixture, DTYPE_F32, ratio, 2 * WIDTH_MAX, values);
    op_fixture_random_fill(fixture, values, compressor.width);
    compressor.norm = op_fixture_plain(fixture, DTYPE_BF16, 1, compressor.width, values);
    rope_table_init(&compressor.rope, 8, 10000.0, NULL);
    compressor.mark = op_fixture_mark(fixture);
    return compressor;
}

/* The entries' bytes after feeding the tokens in steps that end at each of `ends`. */
static void entries_of_steps(struct compressor *compressor, const struct inputs *inputs, const int32_t *ends,
                             int count, unsigned char *out) {
    enum row_kind kind = compressor->has_hadamard ? ROW_KIND_INDEX : ROW_KIND_KV;
    reset(compressor, numerics_row_layout(compressor->numerics, kind, compressor->width, 16), ENTRIES_MAX);
    int32_t first = 0;
    for (int i = 0; i < count; i++) {
        step(compressor, first, ends[i] - first, inputs->values[first], inputs->scores[first]);
        first = ends[i];
    }
    op_fixture_state_download(compressor->fixture, &compressor->entries, out);
}

static void expect_invariance(struct compressor *compressor) {
    static struct inputs inputs;
    static unsigned char whole[2 * ENTRIES_MAX * 2 * WIDTH_MAX * sizeof(float)];
    static unsigned char split[sizeof whole];
    op_fixture_random_fill(compressor->fixture, inputs.values[0], TOKENS * 2 * WIDTH_MAX);
    op_fixture_random_fill(compressor->fixture, inputs.scores[0], TOKENS * 2 * WIDTH_MAX);
    entries_of_steps(compressor, &inputs, (int32_t[]){TOKENS}, 1, whole);
    size_t bytes = compressor->entries.row_bytes;
    /* Slot 0 and the entries of unfinished blocks stay untouched, the others are written. */
    for (size_t i = 0; i < 2 * ENTRIES_MAX * bytes; i++) {
        size_t entry = i / bytes;
        size_t finished = (size_t)(TOKENS / compressor->ratio);
        if (entry < ENTRIES_MAX || entry >= ENTRIES_MAX + finished) {
            assert_int_equal(whole[i], 0xFF);
        }
    }
    float last[2 * WIDTH_MAX];
    op_fixture_state_read(compressor->fixture, &compressor->entries, 1, TOKENS / compressor->ratio - 1, last);
    for (int64_t i = 0; i < compressor->width; i++) {
        assert_true(isfinite(last[i]));
    }
    for (int32_t at = 1; at < TOKENS; at++) {
        entries_of_steps(compressor, &inputs, (int32_t[]){at, TOKENS}, 2, split);
        assert_memory_equal(split, whole, 2 * ENTRIES_MAX * bytes);
    }
    int32_t each[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) {
        each[i] = i + 1;
    }
    entries_of_steps(compressor, &inputs, each, TOKENS, split);
    assert_memory_equal(split, whole, 2 * ENTRIES_MAX * bytes);
    entries_of_steps(compressor, &inputs, (int32_t[]){5, 7, 16, TOKENS}, 4, split);
    assert_memory_equal(split, whole, 2 * ENTRIES_MAX * bytes);
}

static void steps_do_not_change_entries(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct compressor overlap = random_compressor(*state, (enum numerics)numerics, 4, true, false);
        expect_invariance(&overlap);
        struct compressor index = random_compressor(*state, (enum numerics)numerics, 4, true, true);
        expect_invariance(&index);
        struct compressor plain = random_compressor(*state, (enum numerics)numerics, 8, false, false);
        expect_invariance(&plain);
    }
}

/*
 * Rejected drafts leave stale rows and entries behind; the tokens that take their place give the same entries
 * as if the drafts had never been. The ring has a spare row for each draft.
 */
static void rejected_drafts_leave_no_trace(void **state) {
    static struct inputs inputs;
    static struct inputs drafts;
    static unsigned char expected[2 * ENTRIES_MAX * WIDTH_MAX * sizeof(float)];
    static unsigned char actual[sizeof expected];
    enum { DRAFTS = 5, LAST = TOKENS - DRAFTS };
    struct compressor compressor = random_compressor(*state, NUMERICS_IDEAL, 4, true, false);
    compressor.spare_rows = DRAFTS;
    op_fixture_random_fill(*state, inputs.values[0], TOKENS * 2 * WIDTH_MAX);
    op_fixture_random_fill(*state, inputs.scores[0], TOKENS * 2 * WIDTH_MAX);
    op_fixture_random_fill(*state, drafts.values[0], TOKENS * 2 * WIDTH_MAX);
    op_fixture_random_fill(*state, drafts.scores[0], TOKENS * 2 * WIDTH_MAX);
    entries_of_steps(&compressor, &inputs, (int32_t[]){TOKENS}, 1, expected);
    reset(&compressor, compressor.entries.layout, ENTRIES_MAX);
    for (int32_t t = 0; t < TOKENS; t++) {
        int32_t count = t < LAST ? DRAFTS : TOKENS - t;
        step(&compressor, t, count, drafts.values[t], drafts.scores[t]);
        step(&compressor, t, 1, inputs.values[t], inputs.scores[t]);
    }
    op_fixture_state_download(*state, &compressor.entries, actual);
    assert_memory_equal(actual, expected, sizeof expected);
}

/* Two sequences in one batch, in either order, give what each gives alone. */
static void segments_keep_apart(void **state) {
    struct op_fixture *fixture = *state;
    struct compressor compressor = random_compressor(fixture, NUMERICS_IDEAL, 4, true, false);
    static float raw[12][4 * WIDTH_MAX];
    float entries[2][3][WIDTH_MAX];
    op_fixture_random_fill(fixture, raw[0], 12 * 4 * WIDTH_MAX);
    for (int order = 0; order < 2; order++) {
        struct op_segment segments[2] = {{order, 0, 4}, {1 - order, 0, 8}};
        reset(&compressor, (struct row_layout){.encoding = ROW_F32, .width = WIDTH_MAX}, 3);
        struct batch_view batch = op_fixture_batch(fixture, segments, 2, NULL);
        struct compress_entries_args args = {
            .raw = {.rows = op_fixture_upload(fixture, raw, sizeof raw), .ring = compressor.ring},
            .entries = compressor.entries,
            .batch = &batch,
            .norm = &compressor.norm,
            .rope = &compressor.rope,
            .rounding = DTYPE_F32,
            .ratio = 4,
            .width = WIDTH_MAX,
            .has_overlap = true,
            .epsilon = 1e-6f,
        };
        OP_RUN(fixture, NUMERICS_IDEAL, compress_entries, &args);
        op_fixture_state_read(fixture, &compressor.entries, order, 0, entries[order][0]);
        op_fixture_state_read(fixture, &compressor.entries, 1 - order, 0, entries[order][1]);
        op_fixture_state_read(fixture, &compressor.entries, 1 - order, 1, entries[order][2]);
    }
    assert_memory_equal(entries[0], entries[1], sizeof entries[0]);
    assert_memory_not_equal(entries[0][0], entries[0][1], sizeof entries[0][0]);
}

/* Entry 3 of ratio 4 is rotated by position 12: pairs (1, 0) become (cos, sin) of 12 f. */
static void entries_are_rotated_at_their_first_token(void **state) {
    struct op_fixture *fixture = *state;
    enum { WIDTH = 8 };
    float values[16][WIDTH] = {{0}};
    float scores[16][WIDTH] = {{0}};
    const float zeros[4 * WIDTH] = {0};
    float norm[WIDTH];
    for (int t = 0; t < 16; t++) {
        for (int i = 0; i < WIDTH; i += 2) {
            values[t][i] = 1.0f;
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        norm[i] = (float)sqrt(0.5 + 1e-6); /* undoes the norm of four ones and four zeros */
    }
    struct compressor compressor = {
        .fixture = fixture, .numerics = NUMERICS_IDEAL, .width = WIDTH, .ratio = 4};
    compressor.bias = op_fixture_plain(fixture, DTYPE_F32, 4, WIDTH, zeros);
    compressor.norm = op_fixture_plain(fixture, DTYPE_F32, 1, WIDTH, norm);
    rope_table_init(&compressor.rope, 3, 100.0, NULL);
    compressor.mark = op_fixture_mark(fixture);
    reset(&compressor, (struct row_layout){.encoding = ROW_F32, .width = WIDTH}, 4);
    step(&compressor, 0, 16, values[0], scores[0]);
    for (int j = 0; j < 4; j++) {
        float entry[WIDTH];
        double expected[WIDTH] = {1.0, 0.0};
        for (int pair = 0; pair < 3; pair++) {
            double angle = 4.0 * j * pow(100.0, -pair / 3.0);
            expected[2 + 2 * pair] = cos(angle);
            expected[3 + 2 * pair] = sin(angle);
        }
        op_fixture_state_read(fixture, &compressor.entries, 0, j, entry);
        op_expect_near("entry", entry, expected, WIDTH, 2e-6);
    }
}

/* The Hadamard transform comes last: a constant entry becomes one spike of sqrt(width). */
static void index_entries_are_transformed(void **state) {
    struct op_fixture *fixture = *state;
    enum { WIDTH = 64 };
    float values[4][WIDTH];
    const float zeros[4 * WIDTH] = {0};
    float norm[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        norm[i] = 1.0f;
        values[0][i] = values[1][i] = values[2][i] = values[3][i] = 3.0f;
    }
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct compressor compressor = {.fixture = fixture,
                                        .numerics = (enum numerics)numerics,
                                        .width = WIDTH,
                                        .ratio = 4,
                                        .has_hadamard = true};
        compressor.bias = op_fixture_plain(fixture, DTYPE_F32, 4, WIDTH, zeros);
        compressor.norm = op_fixture_plain(fixture, DTYPE_F32, 1, WIDTH, norm);
        compressor.mark = op_fixture_mark(fixture);
        reset(&compressor, numerics_row_layout((enum numerics)numerics, ROW_KIND_INDEX, WIDTH, 0), 1);
        step(&compressor, 0, 4, values[0], zeros);
        float entry[WIDTH];
        double expected[WIDTH] = {8.0};
        op_fixture_state_read(fixture, &compressor.entries, 0, 0, entry);
        op_expect_near("entry", entry, expected, WIDTH, 1e-5);
    }
}

/* Position t takes row t mod ratio of the bias, wherever the step starts. */
static void bias_goes_by_absolute_position(void **state) {
    struct op_fixture *fixture = *state;
    const float bias[3] = {10, 20, 30};
    const float values[4] = {1, 2, 3, 4};
    const float scores[4] = {.5f, .25f, .125f, -1};
    const int32_t positions[4] = {5, 6, 1000000, 7};
    struct weight weight = op_fixture_plain(fixture, DTYPE_F32, 3, 1, bias);
    struct compressor_rows_args args = {
        .out = OP_TENSOR(fixture, DTYPE_F32, NULL, 4, 2),
        .values = OP_TENSOR(fixture, DTYPE_F32, values, 4, 1),
        .scores = OP_TENSOR(fixture, DTYPE_F32, scores, 4, 1),
        .bias = &weight,
        .positions = op_fixture_integers(fixture, positions, 4),
    };
    OP_RUN(fixture, NUMERICS_IDEAL, compressor_rows, &args);
    float actual[8];
    op_fixture_read(fixture, args.out, actual);
    const double expected[8] = {1, 30.5, 2, 10.25, 3, 20.125, 4, 19};
    op_expect_near("raw", actual, expected, 8, 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(overlap_vector_of_the_spec),
        OP_TEST(plain_vector_of_the_spec),
        OP_TEST(large_scores_pool_to_their_value),
        OP_TEST(steps_do_not_change_entries),
        OP_TEST(rejected_drafts_leave_no_trace),
        OP_TEST(segments_keep_apart),
        OP_TEST(entries_are_rotated_at_their_first_token),
        OP_TEST(index_entries_are_transformed),
        OP_TEST(bias_goes_by_absolute_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
