/* Rounding and reordering, a chunk at a time. */
#include "backends/cpu/avx512_bf16/input_rows.h"

#include <immintrin.h>

#include "backends/cpu/avx512_bf16/weight_decode.h"
#include "tensor/quantize.h"

int64_t input_row_stride(int64_t columns) {
    return (columns + CHUNK - 1) / CHUNK * CHUNK;
}

static __m512i load_words(const uint16_t *from, int64_t count) {
    __mmask32 mask = count >= 32 ? 0xFFFFFFFFu : (count <= 0 ? 0 : (1u << count) - 1);
    return _mm512_maskz_loadu_epi16(mask, from);
}

static __m512 widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Largest magnitude of a block of up to 128 bf16 values. */
static float largest_magnitude(const uint16_t *row, int64_t count) {
    const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
    __m512i largest = _mm512_setzero_si512();
    for (int64_t i = 0; i < count; i += 32) {
        largest = _mm512_max_epu16(largest, _mm512_and_si512(load_words(row + i, count - i), magnitude));
    }
    __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(largest), _mm512_extracti64x4_epi64(largest, 1));
    __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    /* There is an instruction for the smallest of eight. */
    const __m128i ones = _mm_set1_epi16(-1);
    int smallest = _mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(eight, ones)), 0);
    return bf16_decode((uint16_t)~smallest);
}

/*
 * e4m3 rounding of sixteen floats at a scale of 1, exactly as e4m3_encode followed by e4m3_decode: to nearest
 * even with three bits of mantissa, in steps of 2^-9 below 2^-6, clamped to 448; a NaN stays one.
 */
static __m512 round_e4m3(__m512 x) {
    const __m512i sign_bit = _mm512_set1_epi32((int)0x80000000u);
    __m512i bits = _mm512_castps_si512(x);
    __m512i sign = _mm512_and_si512(bits, sign_bit);
    __m512i magnitude = _mm512_andnot_si512(sign_bit, bits);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(magnitude, 20), _mm512_set1_epi32(1));
    __m512i normal = _mm512_add_epi32(_mm512_add_epi32(magnitude, _mm512_set1_epi32(0x7FFFF)), odd);
    normal = _mm512_and_si512(normal, _mm512_set1_epi32((int)0xFFF00000u));
    normal = _mm512_min_epu32(normal, _mm512_set1_epi32(0x43E00000)); /* 448 */
    __m512 step = _mm512_set1_ps(0x1p14f);                            /* its last place is 2^-9 */
    __m512 small = _mm512_sub_ps(_mm512_add_ps(_mm512_castsi512_ps(magnitude), step), step);
    __mmask16 is_small = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(0x3C800000)); /* 2^-6 */
    __m512i rounded = _mm512_mask_mov_epi32(normal, is_small, _mm512_castps_si512(small));
    __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_mov_epi32(rounded, is_nan, magnitude);
    return _mm512_castsi512_ps(_mm512_or_si512(rounded, sign));
}

/* What rounding needs of a block's scale, 2^exponent. */
struct act8_scale {
    __m512 scale;
    __m512 inverse;
    __m512i smallest;      /* bf16 words: 2^-6 times the scale */
    __mmask32 is_infinite; /* all lanes or none */
};

static struct act8_scale act8_scale_make(int exponent) {
    return (struct act8_scale){
        .scale = _mm512_set1_ps(f32_power_of_two(exponent)),
        .inverse = _mm512_set1_ps(f32_power_of_two(-exponent)),
        .smallest = _mm512_set1_epi16((short)(0x3C80 + exponent * (1 << BF16_EXPONENT_SHIFT))),
        .is_infinite = exponent > 127 ? 0xFFFFFFFFu : 0,
    };
}

/* 32 bf16 words rounded; the results are exact in bf16. */
static __m512i round_any_words(__m512i words, const struct act8_scale *by) {
    __m512 low = _mm512_mul_ps(widen(_mm512_castsi512_si256(words)), by->inverse);
    __m512 high = _mm512_mul_ps(widen(_mm512_extracti64x4_epi64(words, 1)), by->inverse);
    low = _mm512_mul_ps(round_e4m3(low), by->scale);
    high = _mm512_mul_ps(round_e4m3(high), by->scale);
    __m256i low_words = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(low), 16));
    __m256i high_words = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(high), 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low_words), high_words, 1);
}

/*
 * The same, faster for words that stay normal as codes, or are zero: rounding to three bits of mantissa does
 * not see the scale, which leaves none above 448 (but beside a NaN, where all is lost). Of an infinite scale
 * not even zeros are left.
 */
static inline __m512i round_words(__m512i words, const struct act8_scale *by) {
    const __m512i infinity = _mm512_set1_epi16(0x7F80);
    __m512i magnitude = _mm512_and_si512(words, _mm512_set1_epi16(0x7FFF));
    __mmask32 is_small = _mm512_cmplt_epu16_mask(magnitude, by->smallest);
    __mmask32 is_special = _mm512_mask_test_epi16_mask(is_small, magnitude, magnitude) |
                           _mm512_cmpge_epu16_mask(magnitude, infinity) | by->is_infinite;
    if (is_special != 0) {
        return round_any_words(words, by);
    }
    __m512i odd = _mm512_and_si512(_mm512_srli_epi16(magnitude, 4), _mm512_set1_epi16(1));
    __m512i rounded = _mm512_add_epi16(_mm512_add_epi16(magnitude, _mm512_set1_epi16(7)), odd);
    rounded = _mm512_and_si512(rounded, _mm512_set1_epi16((short)0xFFF0));
    /* rounded | (words & 0x8000): the sign. */
    return _mm512_ternarylogic_epi64(rounded, words, _mm512_set1_epi16((short)0x8000), 0xF8);
}

/* Stores 64 columns in the order of the format. */
static void store_chunk(enum weight_format format, __m512i a, __m512i b, uint16_t *packed) {
    __m512i first = a;
    __m512i second = b;
    if (format == WEIGHT_FP8) {
        first = _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(2, 0, 2, 0));
        second = _mm512_shuffle_i64x2(a, b, _MM_SHUFFLE(3, 1, 3, 1));
    } else if (format == WEIGHT_FP4) {
        const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32,
                                              30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        first = _mm512_permutex2var_epi16(a, even, b);
        second = _mm512_permutex2var_epi16(a, _mm512_add_epi16(even, _mm512_set1_epi16(1)), b);
    }
    _mm512_storeu_si512(packed, first);
    _mm512_storeu_si512(packed + 32, second);
}

void input_row_pack(enum weight_format format, bool rounds, const uint16_t *row, int64_t columns,
                    uint16_t *packed) {
    struct act8_scale by = act8_scale_make(0);
    for (int64_t i = 0; i < columns; i += CHUNK) {
        if (rounds && i % ACT8_LINEAR_BLOCK == 0) {
            int64_t length = columns - i < ACT8_LINEAR_BLOCK ? columns - i : ACT8_LINEAR_BLOCK;
            by = act8_scale_make(act8_scale_exponent(largest_magnitude(row + i, length)));
        }
        __m512i a = load_words(row + i, columns - i);
        __m512i b = load_words(row + i + 32, columns - i - 32);
        if (rounds) {
            a = round_words(a, &by);
            b = round_words(b, &by);
        }
        store_chunk(format, a, b, packed + i);
    }
}

size_t input_row_packed_bytes(int64_t columns) {
    return (size_t)input_row_stride(columns) * sizeof(uint16_t);
}

void input_row_pack_for(const struct weight *weight, bool rounds, enum dtype dtype, const void *row,
                        void *packed) {
    (void)dtype; /* the entries' can_run admits BF16 alone */
    input_row_pack(weight->format, rounds, row, weight->columns, packed);
}
