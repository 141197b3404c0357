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
    uint16_t words[16];
    uint16_t best = 0;
    _mm256_storeu_si256((__m256i *)(void *)words, half);
    for (int i = 0; i < 16; i++) {
        best = words[i] > best ? words[i] : best;
    }
    return bf16_decode(best);
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

/* 32 bf16 words rounded at a scale of 2^exponent; the results are exact in bf16. */
static __m512i round_words(__m512i words, __m512 scale, __m512 inverse) {
    __m512 low =
        _mm512_mul_ps(round_e4m3(_mm512_mul_ps(widen(_mm512_castsi512_si256(words)), inverse)), scale);
    __m512 high =
        _mm512_mul_ps(round_e4m3(_mm512_mul_ps(widen(_mm512_extracti64x4_epi64(words, 1)), inverse)), scale);
    __m256i low_words = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(low), 16));
    __m256i high_words = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(high), 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low_words), high_words, 1);
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
    __m512 scale = _mm512_set1_ps(1.0f);
    __m512 inverse = scale;
    for (int64_t i = 0; i < columns; i += CHUNK) {
        if (rounds && i % ACT8_LINEAR_BLOCK == 0) {
            int64_t length = columns - i < ACT8_LINEAR_BLOCK ? columns - i : ACT8_LINEAR_BLOCK;
            int exponent = act8_scale_exponent(largest_magnitude(row + i, length));
            scale = _mm512_set1_ps(f32_power_of_two(exponent));
            inverse = _mm512_set1_ps(f32_power_of_two(-exponent));
        }
        __m512i a = load_words(row + i, columns - i);
        __m512i b = load_words(row + i + 32, columns - i - 32);
        if (rounds) {
            a = round_words(a, scale, inverse);
            b = round_words(b, scale, inverse);
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
