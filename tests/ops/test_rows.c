/*
 * Operations that move or scale rows: embedding, RMS norm, broadcast sum, encoding of state rows and their
 * commit into a ring.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/add_broadcast.h"
#include "ops/commit_rows.h"
#include "ops/decode_rows.h"
#include "ops/embedding.h"
#include "ops/encode_rows.h"
#include "ops/rms_norm.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"

/* Every copy gets the row; ids outside the vocabulary are clamped before they are looked up (G-18). */
static void embedding_copies_rows(void **state) {
    struct op_fixture *fixture = *state;
    const float table[6] = {1, 2, 3, 4, 5, 6};
    const int32_t ids[4] = {2, 0, -7, 3};
    const float expected[4 * 4] = {5, 6, 5, 6, 1, 2, 1, 2, 1, 2, 1, 2, 5, 6, 5, 6};
    struct weight weight = op_fixture_plain(fixture, DTYPE_BF16, 3, 2, table);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct embedding_args args = {
            .out = OP_TENSOR(fixture, numerics_activation_dtype((enum numerics)numerics), NULL, 4, 2, 2),
            .table = &weight,
            .ids = op_fixture_integers(fixture, ids, 4),
        };
        OP_RUN(fixture, (enum numerics)numerics, embedding, &args);
        float out[16];
        op_fixture_read(fixture, args.out, out);
        assert_memory_equal(out, expected, sizeof expected);
    }
}

/* (3, 4) has the mean square 12.5; with epsilon 3.5 the divisor is 4. */
static void rms_norm_by_hand(void **state) {
    struct op_fixture *fixture = *state;
    const float x[4] = {3, 4, -3, 4};
    const float scale[2] = {2, 0.5f};
    struct weight weight = op_fixture_plain(fixture, DTYPE_BF16, 1, 2, scale);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        enum dtype dtype = numerics_activation_dtype((enum numerics)numerics);
        struct rms_norm_args args = {
            .x = OP_TENSOR(fixture, dtype, x, 1, 2, 2), .weight = &weight, .epsilon = 3.5f};
        args.out = args.x;
        OP_RUN(fixture, (enum numerics)numerics, rms_norm, &args);
        float out[4];
        op_fixture_read(fixture, args.out, out);
        op_expect_near("weighted", out, (double[]){1.5, 0.5, -1.5, 0.5}, 4, 0.0);
        args.x = OP_TENSOR(fixture, dtype, x, 2, 2);
        args.out = OP_TENSOR(fixture, dtype, NULL, 2, 2);
        args.weight = NULL;
        OP_RUN(fixture, (enum numerics)numerics, rms_norm, &args);
        op_fixture_read(fixture, args.out, out);
        op_expect_near("weightless", out, (double[]){0.75, 1, -0.75, 1}, 4, 0.0);
    }
}

/* The product with the weight is not rounded before: one rounding at the end. */
static void rms_norm_rounds_once(void **state) {
    struct op_fixture *fixture = *state;
    enum { WIDTH = 64 };
    float x[WIDTH];
    float scale[WIDTH];
    float out[WIDTH];
    double squares = 0.0;
    for (int i = 0; i < WIDTH; i++) {
        x[i] = bf16_round(op_fixture_random(fixture));
        scale[i] = bf16_round(1.0f + 0.5f * op_fixture_random(fixture));
        squares += (double)x[i] * x[i];
    }
    struct weight weight = op_fixture_plain(fixture, DTYPE_BF16, 1, WIDTH, scale);
    struct rms_norm_args args = {
        .out = OP_TENSOR(fixture, DTYPE_BF16, NULL, 1, WIDTH),
        .x = OP_TENSOR(fixture, DTYPE_BF16, x, 1, WIDTH),
        .weight = &weight,
        .epsilon = 1e-6f,
    };
    OP_RUN(fixture, NUMERICS_NATIVE, rms_norm, &args);
    op_fixture_read(fixture, args.out, out);
    for (int i = 0; i < WIDTH; i++) {
        double expected = (double)scale[i] * x[i] / sqrt(squares / WIDTH + 1e-6);
        assert_true(out[i] == bf16_round((float)expected));
    }
}

static void broadcast_adds_to_every_copy(void **state) {
    struct op_fixture *fixture = *state;
    const float a[4] = {10, 20, 30, 40};
    const float b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const float expected[8] = {11, 22, 13, 24, 35, 46, 37, 48};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        enum dtype dtype = numerics_activation_dtype((enum numerics)numerics);
        struct add_broadcast_args args = {
            .a = OP_TENSOR(fixture, dtype, a, 2, 2),
            .b = OP_TENSOR(fixture, dtype, b, 2, 2, 2),
        };
        args.out = args.b;
        OP_RUN(fixture, (enum numerics)numerics, add_broadcast, &args);
        float out[8];
        op_fixture_read(fixture, args.out, out);
        assert_memory_equal(out, expected, sizeof expected);
    }
}

/* Rows of two parts: (3, 4), (6, 8) have root mean squares a factor of two apart, signs tell rows apart. */
static void rms_norm_takes_rows_by_index(void **state) {
    struct op_fixture *fixture = *state;
    const float x[3 * 4] = {3, 4, 8, 6, -3, 4, -8, 6, 3, -4, 8, -6};
    const double of_row[3][4] = {{0.75, 1, 1.6, 1.2}, {-0.75, 1, -1.6, 1.2}, {0.75, -1, 1.6, -1.2}};
    const int32_t rows[2][5] = {{2, 0, 2, 1, 1}, {1, 2, 0, -1, -1}};
    const int counts[2] = {5, 3};
    for (int n = 0; n < 4; n++) {
        enum dtype dtype = numerics_activation_dtype((enum numerics)(n % 2));
        int count = counts[n / 2];
        struct rms_norm_args args = {
            .out = OP_TENSOR(fixture, dtype, NULL, count, 2, 2),
            .x = OP_TENSOR(fixture, dtype, x, 3, 2, 2),
            .rows = op_fixture_integers(fixture, rows[n / 2], count),
            .epsilon = 3.5f,
        };
        OP_RUN(fixture, (enum numerics)(n % 2), rms_norm, &args);
        float out[5 * 4];
        double expected[5 * 4];
        op_fixture_read(fixture, args.out, out);
        for (int i = 0; i < 4 * count; i++) {
            expected[i] = of_row[rows[n / 2][i / 4]][i % 4];
            /* The second part has the mean square 50. */
            expected[i] *= i % 4 < 2 ? 1 : 5 / sqrt(53.5);
        }
        op_expect_near("by index", out, expected, 4 * count, dtype == DTYPE_BF16 ? 4e-3 : 1e-6);
    }
}

/* Rows as row_encode stores them, one after the other, and back. */
static void encode_stores_the_layout(void **state) {
    struct op_fixture *fixture = *state;
    enum { ROWS = 3, WIDTH = 64 };
    const struct row_layout layouts[3] = {
        {ROW_F32, WIDTH, 0, 0}, {ROW_FP8, WIDTH, 16, 64}, {ROW_FP4, WIDTH, 0, 0}};
    float x[ROWS][WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i / WIDTH][i % WIDTH] = bf16_round(op_fixture_random(fixture));
    }
    for (int n = 0; n < 6; n++) {
        const struct row_layout *layout = &layouts[n / 2];
        enum dtype dtype = numerics_activation_dtype((enum numerics)(n % 2));
        size_t bytes = row_layout_bytes(layout);
        unsigned char expected[ROWS * WIDTH * sizeof(float)];
        unsigned char actual[sizeof expected];
        struct encode_rows_args args = {.x = OP_TENSOR(fixture, dtype, x[0], ROWS, WIDTH), .layout = *layout};
        args.out = op_fixture_upload(fixture, NULL, ROWS * bytes);
        OP_RUN(fixture, (enum numerics)(n % 2), encode_rows, &args);
        op_fixture_download(fixture, args.out, actual, ROWS * bytes);
        for (int row = 0; row < ROWS; row++) {
            row_encode(layout, x[row], expected + (size_t)row * bytes);
        }
        assert_memory_equal(actual, expected, ROWS * bytes);
        struct decode_rows_args back = {
            .out = OP_TENSOR(fixture, dtype, NULL, ROWS, WIDTH), .layout = *layout, .rows = args.out};
        float values[ROWS * WIDTH];
        float stored[ROWS * WIDTH];
        OP_RUN(fixture, (enum numerics)(n % 2), decode_rows, &back);
        op_fixture_read(fixture, back.out, values);
        for (int row = 0; row < ROWS; row++) {
            row_decode(layout, expected + (size_t)row * bytes, stored + (ptrdiff_t)row * WIDTH);
        }
        assert_memory_equal(values, stored, sizeof stored);
    }
}

/* Segments of 1, 7 and 2 rows into rings of 4: each position at its place, of the long one the last four. */
static void commit_keeps_the_last_rows(void **state) {
    struct op_fixture *fixture = *state;
    enum { RING = 4, SLOTS = 4 };
    const struct op_segment segments[3] = {{2, 9, 1}, {0, 3, 7}, {3, 0, 2}};
    const struct row_layout layout = {.encoding = ROW_F32, .width = 1};
    float rows[10];
    for (int i = 0; i < 10; i++) {
        rows[i] = (float)(i + 1);
    }
    struct batch_view batch = op_fixture_batch(fixture, segments, 3, NULL);
    struct commit_rows_args args = {
        .chunk = {.rows = op_fixture_encoded(fixture, layout, rows, 10),
                  .ring = op_fixture_ring(fixture, layout, RING, SLOTS)},
        .batch = &batch,
    };
    OP_RUN(fixture, NUMERICS_IDEAL, commit_rows, &args);
    /* Rows 2..8 of the step are positions 3..9 of slot 0; 6, 7, 8, 9 stay. 0 marks an untouched row. */
    const float expected[SLOTS][RING] = {{7, 8, 5, 6}, {0, 0, 0, 0}, {0, 1, 0, 0}, {9, 10, 0, 0}};
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int i = 0; i < RING; i++) {
            float value;
            op_fixture_state_read(fixture, &args.chunk.ring, slot, i, &value);
            assert_true(expected[slot][i] == 0 ? isnan(value) : value == expected[slot][i]);
        }
    }
}

/*
 * A snapshot has the last rows before it, of the step and of the ring before the step: rows 3 to 6 where the
 * segment goes on to 9, and 0 and 1 where there is no more. A ring without the slot keeps nothing.
 */
static void commit_keeps_snapshots(void **state) {
    struct op_fixture *fixture = *state;
    enum { RING = 4, SLOTS = 5 };
    const struct op_segment segments[2] = {{1, 5, 5}, {2, 0, 3}};
    const struct row_layout layout = {.encoding = ROW_F32, .width = 1};
    const float rows[8] = {5, 6, 7, 8, 9, 10, 11, 12};
    float before[SLOTS][RING];
    for (int i = 0; i < SLOTS * RING; i++) {
        before[i / RING][i % RING] = 50.0f;
    }
    /* Positions 1 to 4 of slot 1. */
    memcpy(before[1], (float[RING]){4, 1, 2, 3}, sizeof before[1]);
    for (int64_t slots = SLOTS; slots >= 4; slots--) {
        struct batch_view batch = op_fixture_batch(fixture, segments, 2, NULL);
        struct commit_rows_args args = {
            .chunk = {.rows = op_fixture_encoded(fixture, layout, rows, 8),
                      .ring = op_fixture_ring(fixture, layout, RING, SLOTS)},
            .batch = &batch,
        };
        for (int i = 0; i < SLOTS * RING; i++) {
            op_fixture_state_write(fixture, &args.chunk.ring, i / RING, i % RING,
                                   &before[i / RING][i % RING]);
        }
        args.chunk.ring.slot_count = slots;
        batch.snapshot_count = 2;
        batch.snapshot_segment = op_fixture_integers(fixture, (int32_t[]){0, 1}, 2);
        batch.snapshot_rows = op_fixture_integers(fixture, (int32_t[]){2, 2}, 2);
        batch.snapshot_slot = op_fixture_integers(fixture, (int32_t[]){4, 0}, 2);
        OP_RUN(fixture, NUMERICS_IDEAL, commit_rows, &args);
        const float expected[SLOTS][RING] = {
            {10, 11, 50, 50}, {8, 9, 6, 7}, {10, 11, 12, 50}, {50, 50, 50, 50}, {4, 5, 6, 3}};
        for (int i = 0; i < SLOTS * RING; i++) {
            float value;
            bool is_kept = i / RING < 4 || slots == SLOTS;
            args.chunk.ring.slot_count = SLOTS;
            op_fixture_state_read(fixture, &args.chunk.ring, i / RING, i % RING, &value);
            assert_true(value == (is_kept ? expected[i / RING][i % RING] : 50.0f));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(embedding_copies_rows),        OP_TEST(rms_norm_by_hand),
        OP_TEST(rms_norm_rounds_once),         OP_TEST(broadcast_adds_to_every_copy),
        OP_TEST(rms_norm_takes_rows_by_index), OP_TEST(encode_stores_the_layout),
        OP_TEST(commit_keeps_the_last_rows),   OP_TEST(commit_keeps_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
