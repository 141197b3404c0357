/*
 * Packing of activations against the rounding of tensor/quantize.h: every bf16 word, beside each magnitude
 * that sets the scale of its block.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/cpu_features.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

enum { COLUMNS = 192, WORDS = 1 << 16 }; /* a whole block and a short one */

/*
 * One block. One with a NaN makes every product NaN: of its other values nothing is asked. Zeros of a block
 * with an infinity are NaN too, by the scale.
 */
static void expect_block(const uint16_t *row, const uint16_t *packed, int count) {
    float expected[ACT8_LINEAR_BLOCK];
    bool has_nan = false;
    for (int i = 0; i < count; i++) {
        expected[i] = bf16_decode(row[i]);
        has_nan = has_nan || isnan(expected[i]);
    }
    act8_round(expected, count, ACT8_LINEAR_BLOCK);
    for (int i = 0; i < count; i++) {
        if (has_nan) {
            assert_true(isnan(bf16_decode(packed[i])) || !isnan(bf16_decode(row[i])));
        } else if (isnan(expected[i])) {
            assert_true(isnan(bf16_decode(packed[i])));
        } else {
            assert_int_equal(packed[i], bf16_encode(expected[i]));
        }
    }
}

static void expect_rounded(const uint16_t *row) {
    uint16_t packed[COLUMNS];
    input_row_pack(WEIGHT_PLAIN, true, row, COLUMNS, packed);
    expect_block(row, packed, ACT8_LINEAR_BLOCK);
    expect_block(row + ACT8_LINEAR_BLOCK, packed + ACT8_LINEAR_BLOCK, COLUMNS - ACT8_LINEAR_BLOCK);
}

static void test_every_word_beside_every_scale(void **state) {
    (void)state;
    static const float largest[] = {0.0f, 1e-6f, 0.03f, 1.0f, 449.0f, 3e5f, 0x1p100f, 3e38f, INFINITY};
    if ((cpu_features_detect() & CPU_FEATURE_AVX512_BF16) == 0) {
        skip();
    }
    for (size_t l = 0; l < sizeof largest / sizeof largest[0]; l++) {
        uint16_t row[COLUMNS] = {0};
        float limit = bf16_decode(bf16_encode(largest[l]));
        int filled = 0;
        for (uint32_t word = 0; word < WORDS; word++) {
            float value = bf16_decode((uint16_t)word);
            if (isnan(value) || fabsf(value) > limit) {
                continue;
            }
            row[filled++] = (uint16_t)word;
            if (filled == COLUMNS - 1) {
                row[filled] = bf16_encode(limit);
                row[ACT8_LINEAR_BLOCK - 1] = bf16_encode(limit);
                expect_rounded(row);
                filled = 0;
            }
        }
        expect_rounded(row);
    }
}

/* Whether a word is rounded fast or with care must not depend on its neighbours. */
static void test_words_of_all_sizes_side_by_side(void **state) {
    (void)state;
    if ((cpu_features_detect() & CPU_FEATURE_AVX512_BF16) == 0) {
        skip();
    }
    uint32_t random = 1;
    for (int n = 0; n < 5000; n++) {
        uint16_t row[COLUMNS];
        for (int i = 0; i < COLUMNS; i++) {
            random = random * 1664525u + 1013904223u;
            row[i] = (uint16_t)(random >> 16);
        }
        expect_rounded(row);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_word_beside_every_scale),
        cmocka_unit_test(test_words_of_all_sizes_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
