/*
 * The number formats against the vectors of the specification (deepseek-v4, 2.1 to 2.6) and, code by code,
 * against a search for the nearest value in double.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tensor/number_format.h"

static bool is_same_float(float a, float b) {
    return f32_bits(a) == f32_bits(b);
}

static void bf16_codes_round_trip(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 65536; code++) {
        float value = bf16_decode((uint16_t)code);
        assert_int_equal(f32_bits(value), code << 16);
        if (isnan(value)) {
            assert_true(isnan(bf16_decode(bf16_encode(value))));
        } else {
            assert_int_equal(bf16_encode(value), code);
        }
    }
}

/* Nearest of the two neighbours in double; the code after the largest stands for 2^128, that is infinity. */
static uint16_t nearest_bf16(float value) {
    uint16_t below = (uint16_t)(f32_bits(value) >> 16);
    if (isinf(value)) {
        return below;
    }
    uint16_t above = (uint16_t)(below + 1);
    double low = fabs((double)bf16_decode(below));
    double high = (above & 0x7FFF) == 0x7F80 ? 0x1p128 : fabs((double)bf16_decode(above));
    double magnitude = fabs((double)value);
    double to_low = magnitude - low;
    double to_high = high - magnitude;
    if (to_low == to_high) {
        return below & 1 ? above : below;
    }
    return to_low < to_high ? below : above;
}

static void bf16_encode_is_nearest_even(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 0x0FFB) {
        float value = f32_from_bits((uint32_t)bits);
        if (!isnan(value)) {
            assert_int_equal(bf16_encode(value), nearest_bf16(value));
        }
    }
    for (uint32_t code = 0; code < 65536; code++) {
        for (uint32_t low = 0x7FFF; low <= 0x8001; low++) {
            float value = f32_from_bits(code << 16 | low);
            if (!isnan(value)) {
                assert_int_equal(bf16_encode(value), nearest_bf16(value));
            }
        }
    }
    assert_int_equal(bf16_encode(1.0f), 0x3F80);
    assert_int_equal(bf16_encode(FLT_MAX), 0x7F80);
    assert_true(is_same_float(bf16_round(1.0f + 0x1p-8f), 1.0f));
    assert_true(is_same_float(bf16_round(1.0f + 0x3p-8f), 1.0f + 0x1p-6f));
}

static void bf16_keeps_nan(void **state) {
    (void)state;
    static const uint32_t nans[] = {0x7F800001u, 0x7F80FFFFu, 0x7FC00000u,
                                    0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        assert_true(isnan(bf16_round(f32_from_bits(nans[i]))));
    }
}

/* The specification's formula. */
static double e4m3_value(unsigned code) {
    unsigned exponent = code >> 3 & 15;
    double mantissa = code & 7;
    double magnitude =
        exponent == 0 ? mantissa * 0x1p-9 : (1.0 + mantissa / 8.0) * ldexp(1.0, (int)exponent - 7);
    return code & 0x80 ? -magnitude : magnitude;
}

static void e4m3_codes_round_trip(void **state) {
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        float value = e4m3_decode((uint8_t)code);
        if ((code & 0x7F) == 0x7F) {
            assert_true(isnan(value));
            assert_int_equal(e4m3_encode(value), 0x7F);
        } else {
            assert_true((double)value == e4m3_value(code));
            assert_int_equal(signbit(value) != 0, code >> 7);
            assert_int_equal(e4m3_encode(value), code);
        }
    }
    assert_true(e4m3_decode(0x7E) == 448.0f);
    assert_true(e4m3_decode(0x01) == 0x1p-9f);
}

static void e4m3_vectors_of_the_specification(void **state) {
    (void)state;
    static const struct {
        float value;
        uint8_t code;
        float decoded;
    } vectors[] = {
        {1.0f, 0x38, 1.0f},     {-0.3f, 0xAA, -0.3125f}, {432.0f, 0x7E, 448.0f},
        {17.0f, 0x58, 16.0f},   {18.0f, 0x59, 18.0f},    {19.0f, 0x5A, 20.0f},
        {240.5f, 0x77, 240.0f}, {0x1p-10f, 0x00, 0.0f},  {0.0029296875f, 0x02, 0.00390625f},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(e4m3_encode(vectors[i].value), vectors[i].code);
        assert_true(e4m3_decode(vectors[i].code) == vectors[i].decoded);
    }
}

static uint8_t nearest_e4m3(float value) {
    double magnitude = fmin(fabs((double)value), 448.0);
    unsigned best = 0;
    double best_distance = INFINITY;
    for (unsigned code = 0; code < 0x7F; code++) {
        double distance = fabs(magnitude - e4m3_value(code));
        if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
            best = code;
            best_distance = distance;
        }
    }
    return (uint8_t)(best | (signbit(value) ? 0x80u : 0u));
}

/* A value, its neighbours in float, and their negatives. */
static void check_e4m3_around(float value) {
    const float around[] = {nextafterf(value, -INFINITY), value, nextafterf(value, INFINITY)};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(e4m3_encode(around[i]), nearest_e4m3(around[i]));
        assert_int_equal(e4m3_encode(-around[i]), nearest_e4m3(-around[i]));
    }
}

static void e4m3_encode_is_nearest_even(void **state) {
    (void)state;
    for (unsigned code = 0; code < 0x7E; code++) {
        check_e4m3_around((float)e4m3_value(code));
        check_e4m3_around((float)((e4m3_value(code) + e4m3_value(code + 1)) / 2.0));
    }
    check_e4m3_around(448.0f);
    check_e4m3_around(464.0f);
    check_e4m3_around(0x1p-6f);
    check_e4m3_around(0x1p-126f);
    /* From below the smallest code's half (2^-10) to above the largest, and coarser over all floats. */
    for (uint32_t bits = f32_bits(0x1p-11f); bits < f32_bits(512.0f); bits += 0x0FB) {
        float value = f32_from_bits(bits);
        if (e4m3_encode(value) != nearest_e4m3(value)) {
            fail_msg("%a gives %02x, nearest is %02x", (double)value, e4m3_encode(value),
                     nearest_e4m3(value));
        }
    }
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 0x0FFFB) {
        float value = f32_from_bits((uint32_t)bits);
        if (!isnan(value)) {
            assert_int_equal(e4m3_encode(value), nearest_e4m3(value));
        }
    }
    assert_int_equal(e4m3_encode(INFINITY), 0x7E);
    assert_int_equal(e4m3_encode(-INFINITY), 0xFE);
    assert_int_equal(e4m3_encode(f32_from_bits(0xFFC00000u)), 0x7F);
}

static void e8m0_bytes_are_exponents(void **state) {
    (void)state;
    for (int byte = 0; byte < 255; byte++) {
        assert_true((double)e8m0_decode((uint8_t)byte) == ldexp(1.0, byte - 127));
    }
    assert_int_equal(f32_bits(e8m0_decode(0)), 0x00400000);
    assert_int_equal(f32_bits(e8m0_decode(1)), 0x00800000);
    assert_true(e8m0_decode(127) == 1.0f);
    assert_true(isnan(e8m0_decode(255)));
    for (int exponent = -149; exponent <= 127; exponent++) {
        assert_true((double)f32_power_of_two(exponent) == ldexp(1.0, exponent));
    }
}

static const double e2m1_magnitudes[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};

static void e2m1_codes_round_trip(void **state) {
    (void)state;
    for (unsigned code = 0; code < 16; code++) {
        float value = e2m1_decode((uint8_t)code);
        assert_true(fabs((double)value) == e2m1_magnitudes[code & 7]);
        assert_int_equal(signbit(value) != 0, code >> 3);
        assert_int_equal(e2m1_encode(value), code);
        /* 2.5: exact in bf16 and FP8, also 64 times as large. */
        assert_true(is_same_float(bf16_round(value), value));
        assert_true(is_same_float(e4m3_decode(e4m3_encode(value)), value));
        assert_true(is_same_float(e4m3_decode(e4m3_encode(64.0f * value)), 64.0f * value));
    }
}

static void e2m1_vectors_of_the_specification(void **state) {
    (void)state;
    static const struct {
        float value;
        uint8_t code;
    } ties[] = {{0.25f, 0}, {0.75f, 2}, {1.25f, 2}, {1.75f, 4}, {2.5f, 4}, {3.5f, 6}, {5.0f, 6}};
    for (size_t i = 0; i < sizeof ties / sizeof ties[0]; i++) {
        assert_int_equal(e2m1_encode(ties[i].value), ties[i].code);
        assert_int_equal(e2m1_encode(-ties[i].value), ties[i].code | 8);
    }
    assert_int_equal(e2m1_encode(100.0f), 7);
    assert_int_equal(e2m1_encode(-INFINITY), 15);
    assert_int_equal(e2m1_encode(-0.0f), 8);
}

static uint8_t nearest_e2m1(float value) {
    double magnitude = fmin(fabs((double)value), 6.0);
    unsigned best = 0;
    double best_distance = INFINITY;
    for (unsigned code = 0; code < 8; code++) {
        double distance = fabs(magnitude - e2m1_magnitudes[code]);
        if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
            best = code;
            best_distance = distance;
        }
    }
    return (uint8_t)(best | (signbit(value) ? 8u : 0u));
}

static void e2m1_encode_is_nearest_even(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 0x0FFB) {
        float value = f32_from_bits((uint32_t)bits);
        if (!isnan(value)) {
            assert_int_equal(e2m1_encode(value), nearest_e2m1(value));
        }
    }
    for (unsigned code = 0; code < 7; code++) {
        float tie = (float)((e2m1_magnitudes[code] + e2m1_magnitudes[code + 1]) / 2.0);
        float beside[] = {nextafterf(tie, 0.0f), tie, nextafterf(tie, 10.0f)};
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(e2m1_encode(beside[i]), nearest_e2m1(beside[i]));
            assert_int_equal(e2m1_encode(-beside[i]), nearest_e2m1(-beside[i]));
        }
    }
}

static void ceil_log2_is_exact(void **state) {
    (void)state;
    for (int exponent = -126; exponent <= 127; exponent++) {
        float power = ldexpf(1.0f, exponent);
        assert_int_equal(f32_ceil_log2(power), exponent);
        assert_int_equal(f32_ceil_log2(nextafterf(power, INFINITY)), exponent + 1);
        if (exponent > -126) {
            assert_int_equal(f32_ceil_log2(nextafterf(power, 0.0f)), exponent);
        }
    }
}

struct exponent_vector {
    float largest;
    int exponent;
};

static void act8_exponents_of_the_specification(void **state) {
    (void)state;
    static const struct exponent_vector vectors[] = {
        {448.0f, 0}, {448.1f, 1}, {447.9f, 0}, {224.0f, -1}, {7.0f, -6},
        {3.5f, -7},  {1.75f, -8}, {1.0f, -8},  {1e-4f, -22}, {0.0f, -22},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(act8_scale_exponent(vectors[i].largest), vectors[i].exponent);
    }
}

static void act4_exponents_of_the_specification(void **state) {
    (void)state;
    static const struct exponent_vector vectors[] = {
        {6.0f, 0},    {6.1f, 1}, {12.0f, 1}, {3.0f, -1}, {1.5f, -2}, {0.75f, -3}, {6.0f * 0x1p-126f, -126},
        {0.0f, -126},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(act4_scale_exponent(vectors[i].largest), vectors[i].exponent);
    }
}

/*
 * Whatever the block's largest value: scaled by its exponent it lies within the format's range and one
 * exponent less would clamp it, but for the rounding of fp32(1/448) and fp32(1/6).
 */
static void scales_fit_their_format(void **state) {
    (void)state;
    for (uint32_t bits = f32_bits(1e-3f); bits < f32_bits(1e30f); bits += 0x1003) {
        double largest = (double)f32_from_bits(bits);
        double scaled8 = ldexp(largest, -act8_scale_exponent(f32_from_bits(bits)));
        double scaled4 = ldexp(largest, -act4_scale_exponent(f32_from_bits(bits)));
        assert_true(scaled8 <= 448.0 * (1.0 + 0x1p-22) && scaled8 > 224.0 * (1.0 - 0x1p-22));
        assert_true(scaled4 <= 6.0 * (1.0 + 0x1p-22) && scaled4 > 3.0 * (1.0 - 0x1p-22));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_codes_round_trip),
        cmocka_unit_test(bf16_encode_is_nearest_even),
        cmocka_unit_test(bf16_keeps_nan),
        cmocka_unit_test(e4m3_codes_round_trip),
        cmocka_unit_test(e4m3_vectors_of_the_specification),
        cmocka_unit_test(e4m3_encode_is_nearest_even),
        cmocka_unit_test(e8m0_bytes_are_exponents),
        cmocka_unit_test(e2m1_codes_round_trip),
        cmocka_unit_test(e2m1_vectors_of_the_specification),
        cmocka_unit_test(e2m1_encode_is_nearest_even),
        cmocka_unit_test(ceil_log2_is_exact),
        cmocka_unit_test(act8_exponents_of_the_specification),
        cmocka_unit_test(act4_exponents_of_the_specification),
        cmocka_unit_test(scales_fit_their_format),
    };
    return cmocka_run_group_tests_name("number_format", tests, NULL, NULL);
}
