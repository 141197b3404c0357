/*
 * Lane quantisation against the element-wise definitions, bit for bit: every upper half of a float's bits
 * with low bits around the ties, and random rows with odd lengths, extremes and NaN.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu_features.h"
#include "lanes/quantize_probe.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

enum { ROW_MAX = 700, ROWS = 20000, GROUP = 16 };

static const struct quantize_probe *const PROBES[] = {
    &quantize_probe_portable,
#ifdef __x86_64__
    &quantize_probe_avx2,
    &quantize_probe_avx512,
#endif
};
enum { PROBE_COUNT = sizeof PROBES / sizeof PROBES[0] };

static uint64_t next_random(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void expect_same_bits(const struct quantize_probe *probe, const char *what, float input, float actual,
                             float expected) {
    if (f32_bits(actual) != f32_bits(expected)) {
        fail_msg("%s: %s of %a (%08X) is %a (%08X), expected %a (%08X)", probe->name, what, (double)input,
                 f32_bits(input), (double)actual, f32_bits(actual), (double)expected, f32_bits(expected));
    }
}

static void check_group(const struct quantize_probe *probe, const float *x) {
    float rounded[GROUP];
    uint8_t codes[GROUP];
    probe->e4m3_round(x, rounded);
    probe->e4m3_encode(x, codes);
    for (int i = 0; i < GROUP; i++) {
        uint8_t code = e4m3_encode(x[i]);
        expect_same_bits(probe, "e4m3_round", x[i], rounded[i], e4m3_decode(code));
        expect_same_bits(probe, "e4m3_encode", x[i], codes[i], code);
    }
    probe->e2m1_round(x, rounded);
    probe->e2m1_encode(x, codes);
    for (int i = 0; i < GROUP; i++) {
        uint8_t code = e2m1_encode(x[i]);
        expect_same_bits(probe, "e2m1_round", x[i], rounded[i], e2m1_decode(code));
        expect_same_bits(probe, "e2m1_encode", x[i], codes[i], code);
    }
}

static void elements_are_those_of_number_format(void **state) {
    (void)state;
    static const uint32_t low[GROUP] = {0,      1,      2,      0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF,
                                        0x0FFF, 0x1000, 0x3FFF, 0x4000, 0x4001, 0xC000, 0xBFFF, 0x5A5A};
    unsigned features = cpu_features_detect();
    for (int p = 0; p < PROBE_COUNT; p++) {
        for (uint32_t high = 0; high < 0x10000u && (PROBES[p]->features & ~features) == 0; high++) {
            float x[GROUP];
            for (int i = 0; i < GROUP; i++) {
                x[i] = f32_from_bits((high << 16) | low[i]);
            }
            check_group(PROBES[p], x);
        }
    }
}

/* A row of one of several characters: ordinary, tiny, huge, any bits (NaN and infinities too), zero. */
static void make_row(uint64_t *random, int64_t count, float *row) {
    unsigned character = (unsigned)(next_random(random) % 6);
    int spread = (int)(next_random(random) % 40);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = next_random(random);
        float uniform = (float)(int32_t)(bits >> 32) * 0x1p-31f;
        int exponent = (int)(bits % (uint64_t)(spread + 1)) - spread / 2;
        float value = uniform * f32_power_of_two(exponent);
        value = character == 1 ? value * 0x1p-30f : value;
        value = character == 2 ? value * 0x1p110f : value;
        value = character == 3 ? f32_from_bits((uint32_t)bits) : value;
        row[i] = character == 4 ? f32_from_bits((uint32_t)bits & 0x80000000u) : value;
    }
}

static void check_row(const struct quantize_probe *probe, const float *row, int64_t count) {
    /* One element of canary behind each output; inputs at odd offsets of 4 and 2 bytes. */
    float expected[ROW_MAX];
    float out[ROW_MAX + 2];
    uint16_t halves[ROW_MAX + 1];
    uint16_t halves_out[ROW_MAX + 2];
    memcpy(expected, row, (size_t)count * sizeof *row);
    act8_round(expected, count, ACT8_LINEAR_BLOCK);
    out[count + 1] = 12345.0f;
    probe->act8_row(DTYPE_F32, row, count, out + 1);
    for (int64_t i = 0; i < count; i++) {
        expect_same_bits(probe, "act8 of f32", row[i], out[i + 1], expected[i]);
    }
    assert_true(out[count + 1] == 12345.0f);
    memcpy(out, row, (size_t)count * sizeof *row);
    probe->act8_row(DTYPE_F32, out, count, out);
    assert_memory_equal(out, expected, (size_t)count * sizeof *out);

    for (int64_t i = 0; i < count; i++) {
        halves[i] = bf16_encode(row[i]);
        expected[i] = bf16_decode(halves[i]);
    }
    act8_round(expected, count, ACT8_LINEAR_BLOCK);
    halves_out[count + 1] = 0x1234;
    probe->act8_row(DTYPE_BF16, halves, count, out);
    probe->act8_row_bf16(halves, count, halves_out + 1);
    for (int64_t i = 0; i < count; i++) {
        expect_same_bits(probe, "act8 of bf16", bf16_decode(halves[i]), out[i], expected[i]);
        expect_same_bits(probe, "act8 to bf16", bf16_decode(halves[i]), bf16_decode(halves_out[i + 1]),
                         expected[i]);
    }
    assert_int_equal(halves_out[count + 1], 0x1234);
}

static void rows_are_those_of_act8_round(void **state) {
    (void)state;
    unsigned features = cpu_features_detect();
    uint64_t random = 1;
    for (int r = 0; r < ROWS; r++) {
        float row[ROW_MAX];
        int64_t count = (int64_t)(next_random(&random) % (ROW_MAX + 1));
        count = r % 4 == 0 ? count / 128 * 128 : count;
        make_row(&random, count, row);
        for (int p = 0; p < PROBE_COUNT; p++) {
            if ((PROBES[p]->features & ~features) == 0) {
                check_row(PROBES[p], row, count);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_those_of_number_format),
        cmocka_unit_test(rows_are_those_of_act8_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
