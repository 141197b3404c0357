/*
 * Linear maps: the weight formats of spec deepseek-v4 2.5 and the linear kinds of 2.7, with block scales at
 * their extremes, matrices that are no multiple of a block, and the rounding of inputs in native numerics.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

static void multiply(struct op_fixture *fixture, enum numerics numerics, const struct weight *weight,
                     enum dtype x_type, const float *x, int64_t rows, enum dtype out_type, float *out) {
    struct linear_args args = {
        .out = OP_TENSOR(fixture, out_type, NULL, rows, weight->rows),
        .x = OP_TENSOR(fixture, x_type, x, rows, weight->columns),
        .weight = weight,
    };
    OP_RUN(fixture, numerics, linear, &args);
    op_fixture_read(fixture, args.out, out);
}

enum { GRID_ROWS = 257, GRID_COLUMNS = 130, GRID_SCALES = 3 * 2 };

/*
 * FP8 codes of 1.0 everywhere, one input channel on: outputs are the scales of the grid, whose blocks at the
 * lower and right edge are cut off. The bytes include the smallest and the largest.
 */
static void fp8_scales_form_a_grid(void **state) {
    struct op_fixture *fixture = *state;
    const uint8_t scales[GRID_SCALES] = {0, 1, 127, 254, 120, 130};
    uint8_t *codes = malloc(GRID_ROWS * GRID_COLUMNS);
    assert_non_null(codes);
    memset(codes, 0x38, GRID_ROWS * GRID_COLUMNS);
    struct weight weight =
        op_fixture_quantised(fixture, WEIGHT_FP8, GRID_ROWS, GRID_COLUMNS, codes, scales, DTYPE_F8_E8M0);
    const int channels[] = {0, 127, 128, 129};
    for (size_t n = 0; n < sizeof channels / sizeof channels[0]; n++) {
        float x[GRID_COLUMNS] = {0};
        float out[GRID_ROWS];
        x[channels[n]] = 1.0f;
        for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
            multiply(fixture, (enum numerics)numerics, &weight, DTYPE_F32, x, 1, DTYPE_F32, out);
            for (int o = 0; o < GRID_ROWS; o++) {
                float expected = ldexpf(1.0f, scales[o / 128 * 2 + channels[n] / 128] - 127);
                assert_true(out[o] == expected && expected != 0.0f);
            }
        }
    }
    free(codes);
}

/* FP4: a scale per row and 32 columns, low nibble first. */
static void fp4_scales_belong_to_rows(void **state) {
    struct op_fixture *fixture = *state;
    enum { ROWS = 3, COLUMNS = 64 };
    const uint8_t scales[ROWS * 2] = {0, 254, 1, 127, 126, 128};
    uint8_t codes[ROWS * COLUMNS / 2];
    memset(codes, 0x92, sizeof codes); /* even columns 1.0, odd columns -0.5 */
    struct weight weight =
        op_fixture_quantised(fixture, WEIGHT_FP4, ROWS, COLUMNS, codes, scales, DTYPE_F8_E8M0);
    for (int k = 0; k < COLUMNS; k++) {
        float x[COLUMNS] = {0};
        float out[ROWS];
        x[k] = 1.0f;
        multiply(fixture, NUMERICS_IDEAL, &weight, DTYPE_F32, x, 1, DTYPE_F32, out);
        for (int o = 0; o < ROWS; o++) {
            float scale = ldexpf(1.0f, scales[o * 2 + k / 32] - 127);
            assert_true(out[o] == (k % 2 == 0 ? scale : -0.5f * scale));
        }
    }
}

/* Field report B27: the same scales as numbers give the same bits. */
static void float_scales_equal_exponent_bytes(void **state) {
    struct op_fixture *fixture = *state;
    enum { ROWS = 130, COLUMNS = 160, ROW_COUNT = 3 };
    static uint8_t codes[ROWS * COLUMNS];
    static uint8_t scales[ROWS * COLUMNS / 32];
    static float x[ROW_COUNT * COLUMNS];
    static float bytes_out[ROW_COUNT * ROWS];
    static float numbers_out[ROW_COUNT * ROWS];
    const uint8_t extremes[4] = {0, 1, 127, 254};
    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)(i * 37) & 0xBB; /* magnitudes below 2: finite at the largest scale */
    }
    for (size_t i = 0; i < sizeof scales; i++) {
        scales[i] = i % 5 == 4 ? (uint8_t)(i % 254) : extremes[i % 5];
    }
    for (int i = 0; i < ROW_COUNT * COLUMNS; i++) {
        x[i] = 0x1p-10f * op_fixture_random(fixture);
    }
    const enum weight_format formats[2] = {WEIGHT_FP8, WEIGHT_FP4};
    for (int n = 0; n < 4; n++) {
        enum numerics numerics = (enum numerics)(n % 2);
        struct weight bytes =
            op_fixture_quantised(fixture, formats[n / 2], ROWS, COLUMNS, codes, scales, DTYPE_F8_E8M0);
        struct weight numbers =
            op_fixture_quantised(fixture, formats[n / 2], ROWS, COLUMNS, codes, scales, DTYPE_F32);
        assert_int_equal(weight_scale_bytes(&numbers), 4 * weight_scale_bytes(&bytes));
        multiply(fixture, numerics, &bytes, DTYPE_F32, x, ROW_COUNT, DTYPE_F32, bytes_out);
        multiply(fixture, numerics, &numbers, DTYPE_F32, x, ROW_COUNT, DTYPE_F32, numbers_out);
        assert_memory_equal(bytes_out, numbers_out, sizeof bytes_out);
        for (int i = 0; i < ROW_COUNT * ROWS; i++) {
            assert_true(isfinite(bytes_out[i]) && bytes_out[i] != 0.0f);
        }
    }
}

enum { OUT_MAX = 150, IN_MAX = 352, X_ROWS = 3 };

/* sum_k W[o][k] x[k] in double, and the sum of magnitudes for the tolerance. */
static double plain_dot(const double *weight_row, const float *x, int columns, double *magnitude) {
    double sum = 0.0;
    *magnitude = 0.0;
    for (int k = 0; k < columns; k++) {
        sum += weight_row[k] * (double)x[k];
        *magnitude += fabs(weight_row[k] * (double)x[k]);
    }
    return sum;
}

static void expect_product(struct op_fixture *fixture, enum weight_format format, enum numerics numerics,
                           int rows, int columns) {
    static double meaning[OUT_MAX * IN_MAX];
    static float x[X_ROWS * IN_MAX];
    static float exact[X_ROWS * OUT_MAX];
    static float rounded[X_ROWS * OUT_MAX];
    enum dtype dtype = numerics_activation_dtype(numerics);
    struct weight weight = op_fixture_random_weight(fixture, format, rows, columns, meaning);
    for (int i = 0; i < X_ROWS * columns; i++) {
        x[i] = bf16_round(op_fixture_random(fixture));
    }
    multiply(fixture, numerics, &weight, dtype, x, X_ROWS, DTYPE_F32, exact);
    multiply(fixture, numerics, &weight, dtype, x, X_ROWS, DTYPE_BF16, rounded);
    for (int row = 0; row < X_ROWS; row++) {
        if (numerics == NUMERICS_NATIVE && format != WEIGHT_PLAIN) {
            act8_round(x + row * columns, columns, 128);
        }
        for (int o = 0; o < rows; o++) {
            double magnitude;
            double expected = plain_dot(meaning + o * columns, x + row * columns, columns, &magnitude);
            op_expect_near("out", exact + row * rows + o, &expected, 1, 1e-6 * magnitude);
            assert_true(rounded[row * rows + o] == bf16_round(exact[row * rows + o]));
        }
    }
}

/* All kinds, with dimensions that are and are not multiples of a block. */
static void products_follow_the_dequantised_weights(void **state) {
    const int shapes[][2] = {{1, 32}, {7, 96}, {128, 128}, {129, 160}, {150, 352}};
    for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
        for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
            expect_product(*state, WEIGHT_PLAIN, (enum numerics)numerics, shapes[n][0], shapes[n][1]);
            expect_product(*state, WEIGHT_FP8, (enum numerics)numerics, shapes[n][0], shapes[n][1]);
            expect_product(*state, WEIGHT_FP4, (enum numerics)numerics, shapes[n][0], shapes[n][1]);
        }
    }
    /* FP8 and plain rows need not be multiples of 32 either. */
    expect_product(*state, WEIGHT_FP8, NUMERICS_NATIVE, 130, 201);
    expect_product(*state, WEIGHT_PLAIN, NUMERICS_NATIVE, 3, 13);
}

/*
 * Native inputs are rounded in blocks of 128: beside 448 the value 0.003 becomes 2 * 2^-9 (0.00390625), alone
 * in its block 384 * 2^-17 (0.0029296875). Only quantised weights do that.
 */
static void native_inputs_are_rounded_by_block(void **state) {
    struct op_fixture *fixture = *state;
    enum { COLUMNS = 160 };
    uint8_t codes[COLUMNS * 2] = {0};
    const uint8_t scales[4] = {127, 127, 127, 127};
    float ones[2 * COLUMNS] = {0};
    float x[COLUMNS] = {0};
    codes[1] = codes[COLUMNS + 128] = 0x38;
    ones[1] = ones[COLUMNS + 128] = 1.0f;
    x[0] = 448.0f;
    x[1] = x[128] = 0.003f;
    struct weight fp8 = op_fixture_quantised(fixture, WEIGHT_FP8, 2, COLUMNS, codes, scales, DTYPE_F8_E8M0);
    struct weight plain = op_fixture_plain(fixture, DTYPE_F32, 2, COLUMNS, ones);
    float out[2];
    multiply(fixture, NUMERICS_NATIVE, &fp8, DTYPE_F32, x, 1, DTYPE_F32, out);
    op_expect_near("native fp8", out, (double[]){0.00390625, 0.0029296875}, 2, 0.0);
    multiply(fixture, NUMERICS_IDEAL, &fp8, DTYPE_F32, x, 1, DTYPE_F32, out);
    op_expect_near("ideal fp8", out, (double[]){0.003f, 0.003f}, 2, 0.0);
    multiply(fixture, NUMERICS_NATIVE, &plain, DTYPE_F32, x, 1, DTYPE_F32, out);
    op_expect_near("native plain", out, (double[]){0.003f, 0.003f}, 2, 0.0);
}

static void no_rows_are_no_work(void **state) {
    struct op_fixture *fixture = *state;
    const float values[2] = {1, 2};
    struct weight weight = op_fixture_plain(fixture, DTYPE_F32, 1, 2, values);
    struct linear_args args = {.weight = &weight};
    args.out = OP_TENSOR(fixture, DTYPE_F32, NULL, 0, 1);
    args.x = OP_TENSOR(fixture, DTYPE_F32, NULL, 0, 2);
    OP_RUN(fixture, NUMERICS_IDEAL, linear, &args);
}

/* Each group meets its own rows of the weight, and its inputs are never quantised. */
static void grouped_products_stay_in_their_group(void **state) {
    struct op_fixture *fixture = *state;
    enum { GROUPS = 3, RANK = 45, COLUMNS = 160, ROWS = 2 };
    static double meaning[GROUPS * RANK * COLUMNS];
    static float x[ROWS * GROUPS * COLUMNS];
    static float out[ROWS * GROUPS * RANK];
    const enum weight_format formats[3] = {WEIGHT_PLAIN, WEIGHT_FP8, WEIGHT_FP4};
    for (int n = 0; n < 6; n++) {
        enum numerics numerics = (enum numerics)(n % 2);
        enum dtype dtype = numerics_activation_dtype(numerics);
        struct weight weight =
            op_fixture_random_weight(fixture, formats[n / 2], (int64_t)GROUPS * RANK, COLUMNS, meaning);
        for (int i = 0; i < ROWS * GROUPS * COLUMNS; i++) {
            x[i] = bf16_round(op_fixture_random(fixture));
        }
        struct grouped_linear_args args = {
            .out = OP_TENSOR(fixture, dtype, NULL, ROWS, GROUPS, RANK),
            .x = OP_TENSOR(fixture, dtype, x, ROWS, GROUPS, COLUMNS),
            .weight = &weight,
        };
        OP_RUN(fixture, numerics, grouped_linear, &args);
        op_fixture_read(fixture, args.out, out);
        for (int i = 0; i < ROWS * GROUPS * RANK; i++) {
            double magnitude;
            const float *input = x + i / RANK * COLUMNS;
            double expected = plain_dot(meaning + i % (GROUPS * RANK) * COLUMNS, input, COLUMNS, &magnitude);
            double tolerance = dtype == DTYPE_F32 ? 1e-6 * magnitude : 0x1p-8 * fabs(expected);
            op_expect_near("out", out + i, &expected, 1, tolerance);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(fp8_scales_form_a_grid),
        OP_TEST(fp4_scales_belong_to_rows),
        OP_TEST(float_scales_equal_exponent_bytes),
        OP_TEST(products_follow_the_dequantised_weights),
        OP_TEST(native_inputs_are_rounded_by_block),
        OP_TEST(no_rows_are_no_work),
        OP_TEST(grouped_products_stay_in_their_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
