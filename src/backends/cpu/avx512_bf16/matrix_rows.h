/*
 * What both ways of multiplying a block of weight rows are made of (matrix_block.c, matrix_stream.c): the
 * block, its rows in the fast decoding, and sums of lanes and leaves.
 */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_MATRIX_ROWS_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_MATRIX_ROWS_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/avx512_bf16/weight_decode.h"
#include "backends/cpu/matrix/matrix_kernel.h"

enum {
    ROWS = 16,          /* weight rows that are handed out together */
    TILE_RESULTS = 16,  /* (input, row) results of a tile: sums that stay in registers */
    STREAM_ROWS = 8,    /* weight rows of a streamed tile at most */
    STREAM_INPUTS = 16, /* up to here weights are decoded in registers */
};

/* Where one weight row lies and how its scales are found. */
struct row_source {
    const uint8_t *codes;
    const uint16_t *lowered; /* FP4: per group; FP8: per block of 128 */
};

/* The parts of a block that are the same for all rows. */
struct weight_block {
    const struct weight *weight;
    const struct leaf_plan *leaves;
    int64_t columns;
    int64_t stride; /* columns, padded */
    uint16_t *panel;
    float *floats;
    uint16_t *lowered;       /* of a block's rows */
    uint16_t *scaled_inputs; /* (STREAM_INPUTS, stride) */
    struct fp8_table fp8;
    struct fp8_table fp8_plain;
    __m512i fp4;
};

/* The block of a weight; `scratch` has matrix_block_scratch_bytes and must outlive it (matrix_block.c). */
struct weight_block weight_block_make(const struct weight *weight, const struct leaf_plan *leaves,
                                      void *scratch);

/* Words that prepare_scales writes for so many rows at most, and reads behind them. */
static inline size_t lowered_words(int64_t columns, int64_t rows) {
    return (size_t)(rows * ((columns + WEIGHT_FP4_GROUP - 1) / WEIGHT_FP4_GROUP) + 32);
}

/* Bytes of so many codes of a row. */
static inline int64_t code_bytes(enum weight_format format, int64_t columns) {
    return format == WEIGHT_PLAIN ? 2 * columns : format == WEIGHT_FP8 ? columns : columns / 2;
}

static inline __mmask64 columns_mask(int64_t left) {
    return left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
}

/* Scales of a row: one per block of columns. */
static inline int64_t scale_count(const struct weight_block *block) {
    int64_t unit = block->weight->format == WEIGHT_FP8 ? WEIGHT_FP8_BLOCK : WEIGHT_FP4_GROUP;
    return (block->columns + unit - 1) / unit;
}

/*
 * Scales of rows as words to lower exponents by, one row behind the other; false if one is out of the fast
 * range. Of FP8 rows one is asked for at a time.
 */
static inline bool prepare_scales(const struct weight_block *block, int64_t row, int64_t row_count,
                                  uint16_t *lowered) {
    const struct weight *weight = block->weight;
    bool is_fp8 = weight->format == WEIGHT_FP8;
    int64_t of_row = scale_count(block);
    int64_t count = row_count * of_row;
    const uint8_t *scales =
        (const uint8_t *)weight->scales + (is_fp8 ? row / WEIGHT_FP8_BLOCK * of_row : row * of_row);
    __m512i highest = _mm512_set1_epi16((short)(is_fp8 ? FP8_SCALE_LARGEST : FP4_SCALE_LARGEST));
    __m512i lowest = _mm512_set1_epi16((short)(is_fp8 ? 0 : FP4_SCALE_SMALLEST));
    /* Of scales below the lowest, which wrap around, and of those above it. */
    __m512i largest = _mm512_setzero_si512();
    for (int64_t i = 0; i < count; i += 32) {
        _mm_prefetch((const char *)scales + ROWS * of_row + i, _MM_HINT_T0);
        __mmask32 mask = count - i >= 32 ? 0xFFFFFFFFu : (1u << (count - i)) - 1;
        __m512i scale = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, scales + i));
        largest = _mm512_mask_max_epu16(largest, mask, largest, _mm512_sub_epi16(scale, lowest));
        __m512i words = _mm512_slli_epi16(_mm512_sub_epi16(highest, scale), BF16_EXPONENT_SHIFT);
        _mm512_storeu_si512(lowered + i, words);
    }
    return _mm512_cmpgt_epu16_mask(largest, _mm512_sub_epi16(highest, lowest)) == 0;
}

static inline struct row_source source_of(const struct weight_block *block, int64_t row,
                                          const uint16_t *lowered) {
    int64_t offset = code_bytes(block->weight->format, row * block->columns);
    return (struct row_source){(const uint8_t *)block->weight->data + offset, lowered};
}

/* The chunk that starts at `column`, in the fast way. */
static inline __attribute__((always_inline)) struct bf16_chunk decode_chunk(const struct weight_block *block,
                                                                            enum weight_format format,
                                                                            const struct row_source *row,
                                                                            int64_t column, int64_t left) {
    if (format == WEIGHT_FP8) {
        __m512i lowered = _mm512_set1_epi16((short)row->lowered[column / WEIGHT_FP8_BLOCK]);
        return fp8_decode(&block->fp8, row->codes + column, columns_mask(left), lowered);
    }
    if (format == WEIGHT_FP4) {
        __mmask32 mask = (__mmask32)columns_mask(left / 2);
        return fp4_decode(block->fp4, row->codes + column / 2, mask,
                          fp4_spread_lowered(row->lowered + column / WEIGHT_FP4_GROUP));
    }
    __mmask32 first = (__mmask32)columns_mask(left);
    __mmask32 second = left <= 32 ? 0 : (__mmask32)columns_mask(left - 32);
    const uint8_t *bytes = row->codes + 2 * column;
    return (struct bf16_chunk){_mm512_maskz_loadu_epi16(first, bytes),
                               _mm512_maskz_loadu_epi16(second, bytes + 64)};
}

/* The same where inputs carry the scales of FP8 weights (matrix_stream_scale). */
static inline __attribute__((always_inline)) struct bf16_chunk
decode_chunk_unscaled(const struct weight_block *block, enum weight_format format,
                      const struct row_source *row, int64_t column, int64_t left) {
    if (format == WEIGHT_FP8) {
        return fp8_decode_plain(&block->fp8_plain, row->codes + column, columns_mask(left));
    }
    return decode_chunk(block, format, row, column, left);
}

/* Sums of neighbouring lanes within quarters: of a in the low half of each quarter, of b in the high. */
static inline __m512 pair_sums(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
                         _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* Sums of neighbouring quarters: of a in the low half, of b in the high. */
static inline __m512 quarter_sums(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
                         _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

/*
 * The sums of the lanes by the adjacent binary tree, of each of `count` vectors, two or a multiple of four:
 * lane i of the result is that of vector i. Missing vectors repeat others, whose sums the compiler then makes
 * once.
 */
static inline __attribute__((always_inline)) __m512 sum_lanes(const __m512 *lanes, int count) {
    __m512 quarters[TILE_RESULTS / 4];
    const int used = (count + 3) / 4;
#pragma GCC unroll 4
    for (int q = 0; q < used; q++) {
        const __m512 *two = lanes + (ptrdiff_t)4 * q;
        const __m512 *next = count == 2 ? two : two + 2;
        quarters[q] = pair_sums(pair_sums(two[0], two[1]), pair_sums(next[0], next[1]));
    }
#pragma GCC unroll 4
    for (int q = used; q < TILE_RESULTS / 4; q++) {
        quarters[q] = quarters[q & (used - 1)];
    }
    return quarter_sums(quarter_sums(quarters[0], quarters[1]), quarter_sums(quarters[2], quarters[3]));
}

/* leaf_push of sixteen results. */
static inline int push_leaf(__m512 *sums, int depth, __m512 leaf, int merge_count) {
    for (; merge_count > 0; merge_count--) {
        leaf = _mm512_add_ps(sums[--depth], leaf);
    }
    sums[depth] = leaf;
    return depth + 1;
}

/* Flushed products can leave -0.0, which no leaf is; adding +0.0 to the root does for all of its leaves. */
static inline void store_root(float *out, __m512 root) {
    _mm512_storeu_ps(out, _mm512_add_ps(root, _mm512_setzero_ps()));
}

/* Results of one input for ROWS weight rows, from tiles of 2, 4 or 8 rows. */
static inline __m512 join_rows(float (*groups)[TILE_RESULTS], int64_t rows, int64_t tile_input) {
    const float *from = groups[0] + tile_input * rows;
    if (rows == ROWS / 2) {
        __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps(from));
        return _mm512_insertf32x8(low, _mm256_loadu_ps(from + TILE_RESULTS), 1);
    }
    if (rows == ROWS / 4) {
        __m512 all = _mm512_castps128_ps512(_mm_loadu_ps(from));
        all = _mm512_insertf32x4(all, _mm_loadu_ps(from + TILE_RESULTS), 1);
        all = _mm512_insertf32x4(all, _mm_loadu_ps(from + 2 * TILE_RESULTS), 2);
        return _mm512_insertf32x4(all, _mm_loadu_ps(from + 3 * TILE_RESULTS), 3);
    }
    const __m512i tile = _mm512_setr_epi32(0, 1, 16, 17, 32, 33, 48, 49, 64, 65, 80, 81, 96, 97, 112, 113);
    return _mm512_i32gather_ps(tile, from, sizeof(float));
}

/* Hands out the results of one input for ROWS weight rows. groups[row / rows]: results of a tile, `rows` for
 * each input. */
static inline void take_rows(float (*groups)[TILE_RESULTS], int64_t rows, int64_t tile_input, int64_t input,
                             int64_t first_row, int64_t row_count, const struct matrix_sink *sink) {
    float values[ROWS];
    /* In one store of all: a sink that reads them at once would have to wait for several. */
    _mm512_storeu_ps(values, join_rows(groups, rows, tile_input));
    sink->take(sink->context, input, first_row, row_count, values);
}

#endif
