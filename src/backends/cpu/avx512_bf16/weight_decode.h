/*
 * Weights as the file stores them to bf16 vectors, in registers.
 *
 * A chunk is 64 consecutive columns of one row and becomes two vectors of 32, block scale included (an exact
 * power of two). Each format leaves the columns in the order that costs least; packed inputs follow it
 * (input_rows.h), and a dot product does not care:
 *   PLAIN  0..31, 32..63
 *   FP8    0-7 16-23 32-39 48-55, 8-15 24-31 40-47 56-63
 *   FP4    the even columns, the odd columns
 * Columns past the end of a row decode to 0.
 *
 * Scales are folded in by a saturating subtraction on the bits: tables hold the values with the largest
 * exponent that fits, so that a scale only ever lowers it and a zero stays zero. That covers scale bytes up
 * to 247 (FP8) and 1 to 253 (FP4), and no NaN code; other blocks take the decoder of tensor/weight.h
 * (matrix_block.c).
 */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_WEIGHT_DECODE_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_WEIGHT_DECODE_H

#include <immintrin.h>
#include <stdint.h>

#include "tensor/number_format.h"
#include "tensor/weight.h"

enum {
    CHUNK = 64, /* columns */
    FP8_SCALE_LARGEST = 247,
    FP4_SCALE_SMALLEST = 1,
    FP4_SCALE_LARGEST = 253,
    BF16_EXPONENT_SHIFT = 7,
};

struct bf16_chunk {
    __m512i first;
    __m512i second;
};

/* bf16 bits of every e4m3 magnitude times 2^(247 - 127), low and high bytes apart. */
struct fp8_table {
    __m512i low[2];
    __m512i high[2];
};

struct fp8_table fp8_table_load(void);

/* The same without scale: bf16 bits of every magnitude as it is, a NaN for the NaN code. */
struct fp8_table fp8_plain_table_load(void);

/* The codes' own values, for kernels that scale their inputs instead. `mask`: columns that exist. */
static inline struct bf16_chunk fp8_decode_plain(const struct fp8_table *table, const uint8_t *codes,
                                                 __mmask64 mask) {
    __m512i code = _mm512_maskz_loadu_epi8(mask, codes);
    __m512i low = _mm512_permutex2var_epi8(table->low[0], code, table->low[1]);
    __m512i high = _mm512_permutex2var_epi8(table->high[0], code, table->high[1]);
    /* high | (code & 0x80): the sign. */
    high = _mm512_ternarylogic_epi64(high, code, _mm512_set1_epi8((char)0x80), 0xF8);
    return (struct bf16_chunk){_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
}

/* Whether a chunk holds a NaN code. */
static inline __mmask64 fp8_find_nan(const uint8_t *codes, __mmask64 mask) {
    __m512i code = _mm512_maskz_loadu_epi8(mask, codes);
    return _mm512_cmpeq_epi8_mask(_mm512_or_si512(code, _mm512_set1_epi8((char)0x80)), _mm512_set1_epi8(-1));
}

/* `lowered`: (247 - scale byte) << 7 in every word. `mask`: columns that exist. */
static inline struct bf16_chunk fp8_decode(const struct fp8_table *table, const uint8_t *codes,
                                           __mmask64 mask, __m512i lowered) {
    __m512i code = _mm512_maskz_loadu_epi8(mask, codes);
    __m512i low = _mm512_permutex2var_epi8(table->low[0], code, table->low[1]);
    __m512i high = _mm512_permutex2var_epi8(table->high[0], code, table->high[1]);
    struct bf16_chunk chunk;
    chunk.first = _mm512_subs_epu16(_mm512_unpacklo_epi8(low, high), lowered);
    chunk.second = _mm512_subs_epu16(_mm512_unpackhi_epi8(low, high), lowered);
    /* The sign goes on last, so that the subtraction sees magnitudes. Its bit is bit 7 of the code. */
    __m512i sign = _mm512_and_si512(code, _mm512_set1_epi8((char)0x80));
    __m512i zero = _mm512_setzero_si512();
    chunk.first = _mm512_or_si512(chunk.first, _mm512_unpacklo_epi8(zero, sign));
    chunk.second = _mm512_or_si512(chunk.second, _mm512_unpackhi_epi8(zero, sign));
    return chunk;
}

/* bf16 bits of every e2m1 code times 2^(253 - 127), twice; both zeros give +0. */
__m512i fp4_table_load(void);

/* `lowered`: (253 - scale byte) << 7, words 0..15 of the chunk's first group, 16..31 of its second. */
static inline struct bf16_chunk fp4_decode(__m512i table, const uint8_t *codes, __mmask32 mask,
                                           __m512i lowered) {
    __m512i pairs = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, codes));
    struct bf16_chunk chunk;
    /* Indices use five bits; the table repeats after sixteen entries, so the stray fifth bit does no harm. */
    chunk.first = _mm512_subs_epu16(_mm512_permutexvar_epi16(pairs, table), lowered);
    chunk.second = _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi16(pairs, 4), table), lowered);
    return chunk;
}

/* The words that lower a chunk's two groups, from two words side by side. */
static inline __m512i fp4_spread_lowered(const uint16_t *two_words) {
    uint32_t both;
    __builtin_memcpy(&both, two_words, sizeof both);
    const __m512i pick = _mm512_inserti64x4(_mm512_set1_epi16(0x0100), _mm256_set1_epi16(0x0302), 1);
    return _mm512_shuffle_epi8(_mm512_set1_epi32((int)both), pick);
}

#endif
