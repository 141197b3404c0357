/*
 * State rows (spec deepseek-v4 5.1) and activation quantisation (2.6): sizes, where each byte lies, and codes
 * against a search over all values of the format.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/op_fixture.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"
#include "tensor/row_layout.h"

static void row_sizes(void **state) {
    (void)state;
    assert_int_equal(row_layout_bytes(&(struct row_layout){ROW_FP8, 512, 64, 64}), 584);
    assert_int_equal(row_layout_bytes(&(struct row_layout){ROW_FP4, 128, 0, 0}), 68);
    assert_int_equal(row_layout_bytes(&(struct row_layout){ROW_F32, 512, 0, 0}), 2048);
    /* 48 codes and 1 scale make 56 with padding, then 16 bf16. */
    assert_int_equal(row_layout_bytes(&(struct row_layout){ROW_FP8, 64, 16, 64}), 88);
    assert_int_equal(row_layout_bytes(&(struct row_layout){ROW_FP4, 32, 0, 0}), 17);
    /* Parallelism E-5: an input of V4-Flash's experts, a byte a channel and one for 128 of them. */
    assert_int_equal(row_layout_bytes(&(struct row_layout){ROW_FP8, 4096, 0, 128}), 4128);
}

/* The value of a code: e4m3 by spec 2.2, e2m1 by 2.4. */
static double code_value(bool is_fp8, int code) {
    const double small[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    if (!is_fp8) {
        return small[code];
    }
    return code < 8 ? ldexp(code, -9) : ldexp(1.0 + code % 8 / 8.0, code / 8 - 7);
}

/* The nearest magnitude of the format, ties to the even code, after clamping. */
static double nearest(bool is_fp8, double magnitude) {
    int last = is_fp8 ? 0x7E : 7;
    int best = 0;
    for (int code = 1; code <= last; code++) {
        double distance = fabs(code_value(is_fp8, code) - magnitude);
        double best_distance = fabs(code_value(is_fp8, best) - magnitude);
        if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
            best = code;
        }
    }
    return code_value(is_fp8, best);
}

/* ACT8 or ACT4 of one block: the scale is the least power of two that brings amax into range. */
static void plain_round(bool is_fp8, const float *values, int count, float *out) {
    float largest = is_fp8 ? 1e-4f : 0x1.8p-124f;
    for (int i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(values[i]));
    }
    float product = largest * (is_fp8 ? 1.0f / 448.0f : 1.0f / 6.0f);
    int exponent = -140;
    while (ldexp(1.0, exponent) < (double)product) {
        exponent++;
    }
    for (int i = 0; i < count; i++) {
        double magnitude = nearest(is_fp8, ldexp(fabs((double)values[i]), -exponent));
        out[i] = (float)copysign(ldexp(magnitude, exponent), (double)values[i]);
    }
}

/* Blocks of many magnitudes, with zeros, ties and the ends of the range. */
static void fill(struct op_fixture *fixture, float *values, int count, int round) {
    for (int i = 0; i < count; i++) {
        values[i] = ldexpf(op_fixture_random(fixture), round * 5 - 60 + i % 7);
    }
    values[1] = 0.0f;
    values[2] = -0.0f;
    if (round == 0) {
        memset(values, 0, (size_t)count * sizeof *values);
    } else if (round == 1) {
        const float chosen[12] = {448, 432, 17, 18, 19, 0x1p-10f, 3 * 0x1p-10f, 6, 2.5f, -3.5f, 5, -0.75f};
        memcpy(values, chosen, sizeof chosen);
    } else if (round == 2) {
        const float fp4_ties[8] = {6, 0.25f, -0.75f, 1.25f, -1.75f, 2.5f, -3.5f, 5};
        memset(values, 0, (size_t)count * sizeof *values);
        memcpy(values, fp4_ties, sizeof fp4_ties);
    }
}

enum { COUNT = 112, ROUNDS = 24 };

static void rounding_finds_the_nearest_value(void **state) {
    struct op_fixture *fixture = *state;
    for (int round = 0; round < ROUNDS; round++) {
        float values[COUNT];
        float actual[COUNT];
        float expected[COUNT];
        fill(fixture, values, COUNT, round);
        /* 112 = 64 + 48 for ACT8, 3 * 32 + 16 for ACT4: the last block is shorter. */
        memcpy(actual, values, sizeof actual);
        act8_round(actual, COUNT, 64);
        plain_round(true, values, 64, expected);
        plain_round(true, values + 64, 48, expected + 64);
        assert_memory_equal(actual, expected, sizeof expected);
        memcpy(actual, values, sizeof actual);
        act4_round(actual, COUNT, 32);
        for (int first = 0; first < COUNT; first += 32) {
            plain_round(false, values + first, COUNT - first < 32 ? COUNT - first : 32, expected + first);
        }
        assert_memory_equal(actual, expected, sizeof expected);
    }
}

/* A stored row reads back as what the rounding leaves, and storing that again changes nothing. */
static void rows_hold_the_rounded_values(void **state) {
    struct op_fixture *fixture = *state;
    enum { WIDTH = 128, PLAIN = 16, CODED = WIDTH - PLAIN };
    const struct row_layout fp8 = {ROW_FP8, WIDTH, PLAIN, 64};
    const struct row_layout fp4 = {ROW_FP4, WIDTH, 0, 0};
    for (int round = 0; round < ROUNDS; round++) {
        float values[WIDTH];
        float expected[WIDTH];
        float actual[WIDTH];
        unsigned char row[1 + WIDTH * 2]; /* rows need no alignment */
        fill(fixture, values, WIDTH, round);
        memcpy(expected, values, sizeof expected);
        act8_round(expected, CODED, 64);
        for (int i = CODED; i < WIDTH; i++) {
            expected[i] = bf16_round(values[i]);
        }
        row_encode(&fp8, values, row + 1);
        row_decode(&fp8, row + 1, actual);
        assert_memory_equal(actual, expected, sizeof expected);
        row_encode(&fp8, actual, row + 1);
        row_decode(&fp8, row + 1, actual);
        assert_memory_equal(actual, expected, sizeof expected);
        memcpy(expected, values, sizeof expected);
        act4_round(expected, WIDTH, 32);
        row_encode(&fp4, values, row + 1);
        row_decode(&fp4, row + 1, actual);
        assert_memory_equal(actual, expected, sizeof expected);
        row_encode(&fp4, actual, row + 1);
        row_decode(&fp4, row + 1, actual);
        assert_memory_equal(actual, expected, sizeof expected);
    }
}

/* Inputs of products: what ACT8 in blocks of 128 leaves, which the next rounding leaves as it is. */
static void inputs_hold_the_rounded_values(void **state) {
    struct op_fixture *fixture = *state;
    enum { WIDTH = 200 };
    struct row_layout layout = numerics_row_layout(NUMERICS_NATIVE, ROW_KIND_INPUT, WIDTH, 0);
    for (int round = 0; round < ROUNDS; round++) {
        float values[WIDTH];
        float expected[WIDTH];
        float actual[WIDTH];
        unsigned char row[WIDTH + 8];
        assert_true(row_layout_bytes(&layout) <= sizeof row);
        fill(fixture, values, WIDTH, round);
        plain_round(true, values, 128, expected);
        plain_round(true, values + 128, WIDTH - 128, expected + 128);
        row_encode(&layout, values, row);
        row_decode(&layout, row, actual);
        assert_memory_equal(actual, expected, sizeof expected);
        act8_round(actual, WIDTH, 128);
        assert_memory_equal(actual, expected, sizeof expected);
        for (int i = 0; i < WIDTH; i++) {
            assert_true(bf16_round(actual[i]) == actual[i]);
        }
    }
}

/* Codes first, then one scale byte per block, zero padding to 8, then bf16. */
static void fp8_bytes_lie_where_the_spec_says(void **state) {
    (void)state;
    const struct row_layout layout = {ROW_FP8, 72, 4, 64};
    float values[72] = {0};
    unsigned char row[88];
    values[0] = 448.0f;
    values[1] = 17.0f;
    values[64] = -3.5f;
    values[71] = 1.5f;
    assert_int_equal(row_layout_bytes(&layout), 80);
    memset(row, 0xAA, sizeof row);
    row_encode(&layout, values, row);
    assert_int_equal(row[0], 0x7E);
    assert_int_equal(row[1], 0x58);
    assert_int_equal(row[64], 0xFE);
    assert_int_equal(row[68], 127);
    assert_int_equal(row[69], 127 - 7);
    assert_int_equal(row[70], 0);
    assert_int_equal(row[71], 0);
    assert_int_equal(row[78], 0xC0); /* 1.5 is 0x3FC0 */
    assert_int_equal(row[79], 0x3F);
    assert_int_equal(row[80], 0xAA);
}

/* Two codes a byte, low nibble first, then one scale byte per 32. */
static void fp4_bytes_lie_where_the_spec_says(void **state) {
    (void)state;
    const struct row_layout layout = {ROW_FP4, 64, 0, 0};
    float values[64] = {0};
    unsigned char row[40];
    values[0] = 6.0f;
    values[1] = -1.0f;
    values[63] = 0.75f;
    memset(row, 0xAA, sizeof row);
    row_encode(&layout, values, row);
    assert_int_equal(row[0], 0xA7);
    assert_int_equal(row[1], 0);
    assert_int_equal(row[31], 0x70);
    assert_int_equal(row[32], 127);
    assert_int_equal(row[33], 127 - 3);
    assert_int_equal(row[34], 0xAA);
}

/* The policy: which row kinds are quantised in which mode. */
static void numerics_choose_the_encoding(void **state) {
    (void)state;
    assert_int_equal(numerics_row_layout(NUMERICS_IDEAL, ROW_KIND_KV, 512, 64).encoding, ROW_F32);
    assert_int_equal(numerics_row_layout(NUMERICS_IDEAL, ROW_KIND_INDEX, 128, 0).encoding, ROW_F32);
    assert_int_equal(numerics_row_layout(NUMERICS_NATIVE, ROW_KIND_FLOAT, 128, 0).encoding, ROW_F32);
    assert_int_equal(numerics_row_layout(NUMERICS_IDEAL, ROW_KIND_INPUT, 128, 0).encoding, ROW_F32);
    struct row_layout kv = numerics_row_layout(NUMERICS_NATIVE, ROW_KIND_KV, 512, 64);
    assert_int_equal(row_layout_bytes(&kv), 584);
    struct row_layout index = numerics_row_layout(NUMERICS_NATIVE, ROW_KIND_INDEX, 128, 0);
    assert_int_equal(row_layout_bytes(&index), 68);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_sizes),
        OP_TEST_IN(rounding_finds_the_nearest_value, "cpu"),
        OP_TEST_IN(rows_hold_the_rounded_values, "cpu"),
        OP_TEST_IN(inputs_hold_the_rounded_values, "cpu"),
        cmocka_unit_test(fp8_bytes_lie_where_the_spec_says),
        cmocka_unit_test(fp4_bytes_lie_where_the_spec_says),
        cmocka_unit_test(numerics_choose_the_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
