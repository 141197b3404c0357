/*
 * Sixteen weight rows are decoded, 64 columns at a time, into a buffer that stays in the L1 cache; bf16 rows
 * are tiles where the file has them. The inputs are the other operand: column pairs by inputs.
 *
 * More rows at once would hide more of a tile product's latency, but read the memory in more places: on a
 * Xeon 16 rows are as fast from the L2 cache and a quarter faster from memory than 32.
 */
#include "backends/cpu/amx_bf16/tile_few.h"

#include <immintrin.h>

#include "backends/cpu/amx_bf16/tile_config.h"
#include "backends/cpu/amx_bf16/tile_sums.h"
#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/matrix_block.h"
#include "backends/cpu/avx512_bf16/matrix_rows.h"
#include "backends/cpu/avx512_bf16/matrix_stream.h"

enum {
    PAIR_WORDS = 2,
    VECTOR_WORDS = 32,
    CACHE_LINE_BYTES = 64,
    SUM_FLOATS = TILE_ROWS * TILE_FEW_INPUTS,
};

/* Up to 16 rows of a block, and the inputs as tiles. */
struct few_product {
    const struct weight_block *block;
    struct row_source first;
    int64_t code_pitch;    /* bytes */
    int64_t lowered_pitch; /* words */
    int64_t row_count;
    const uint16_t *inputs; /* (columns / 32, 16 pairs, width, 2) */
    int64_t width;          /* inputs, rounded up to a power of two */
};

/* 64 columns of the rows as bf16, so many bytes from row to row. */
struct weight_tiles {
    const uint16_t *words;
    int64_t pitch;
};

size_t tile_few_scratch_bytes(int64_t columns) {
    size_t inputs = (size_t)(TILE_FEW_INPUTS * input_row_stride(columns)) * sizeof(uint16_t);
    return inputs + matrix_block_scratch_bytes(columns);
}

/* Tiles: 0 sums, 1-2 inputs of 32 columns each, 3-4 weights of the same columns. */
static void load_config(int64_t row_count, int64_t width) {
    uint8_t rows = (uint8_t)row_count;
    uint8_t input_bytes = (uint8_t)(width * (int64_t)sizeof(float));
    struct tile_config config = {
        .palette = 1,
        .rows = {rows, TILE_ROWS, TILE_ROWS, rows, rows},
        .bytes_wide = {input_bytes, input_bytes, input_bytes, TILE_BYTES_WIDE, TILE_BYTES_WIDE},
    };
    _tile_loadconfig(&config);
}

/*
 * Column pairs of all inputs side by side. Vectors that follow each other are one long row of numbers;
 * shuffling its halves into each other once for each bit of an input's number turns (input, pair) into (pair,
 * input).
 */
static void interleave_inputs(const uint16_t *inputs, int64_t stride, int64_t count, int64_t width,
                              uint16_t *out) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t column = 0; column < stride; column += VECTOR_WORDS) {
        __m512i vectors[2][TILE_FEW_INPUTS];
        int from = 0;
        for (int64_t m = 0; m < width; m++) {
            vectors[0][m] =
                m < count ? _mm512_loadu_si512(inputs + m * stride + column) : _mm512_setzero_si512();
        }
        for (int64_t done = 1; done < width; done *= 2) {
            for (int64_t i = 0; i < width / 2; i++) {
                __m512i a = vectors[from][i];
                __m512i b = vectors[from][width / 2 + i];
                vectors[1 - from][2 * i] = _mm512_permutex2var_epi32(a, low, b);
                vectors[1 - from][2 * i + 1] = _mm512_permutex2var_epi32(a, high, b);
            }
            from = 1 - from;
        }
        for (int64_t m = 0; m < width; m++) {
            _mm512_storeu_si512(out + column * width + m * VECTOR_WORDS, vectors[from][m]);
        }
    }
}

/*
 * Asks for as many bytes of the rows behind these as a chunk has: one stream, where the rows themselves are
 * read in sixteen. Addresses past the weights do no harm.
 */
static inline __attribute__((always_inline)) void prefetch_chunk(const struct few_product *product,
                                                                 enum weight_format format, int64_t column) {
    const char *ahead = (const char *)product->first.codes + product->row_count * product->code_pitch;
    ahead += product->row_count * code_bytes(format, column);
    for (int64_t i = 0; i < product->row_count * code_bytes(format, CHUNK); i += CACHE_LINE_BYTES) {
        _mm_prefetch(ahead + i, _MM_HINT_T1);
    }
}

/* The chunk at `column` of all rows, in `buffer` (16, 64) unless the file has it in this form. */
static inline __attribute__((always_inline)) struct weight_tiles
weights_at(const struct few_product *product, enum weight_format format, int64_t column, uint16_t *buffer) {
    int64_t left = product->block->columns - column;
    prefetch_chunk(product, format, column);
    if (format == WEIGHT_PLAIN && left >= CHUNK) {
        const void *words = product->first.codes + code_bytes(format, column);
        return (struct weight_tiles){words, product->code_pitch};
    }
    for (int64_t r = 0; r < product->row_count; r++) {
        struct row_source row = {product->first.codes + r * product->code_pitch,
                                 product->first.lowered + r * product->lowered_pitch};
        struct bf16_chunk chunk = decode_chunk_unscaled(product->block, format, &row, column, left);
        _mm512_store_si512(buffer + r * CHUNK, chunk.first);
        _mm512_store_si512(buffer + r * CHUNK + VECTOR_WORDS, chunk.second);
    }
    return (struct weight_tiles){buffer, CHUNK * (int64_t)sizeof(uint16_t)};
}

/* Adds the products of a chunk to the sums. */
static inline void multiply_chunk(const struct few_product *product, int64_t column,
                                  struct weight_tiles weights) {
    const uint16_t *inputs = product->inputs + column * product->width;
    int64_t input_pitch = product->width * PAIR_WORDS * (int64_t)sizeof *inputs;
    _tile_loadd(1, inputs, input_pitch);
    _tile_loadd(2, inputs + TILE_COLUMNS * product->width, input_pitch);
    _tile_loadd(3, weights.words, weights.pitch);
    _tile_loadd(4, weights.words + TILE_COLUMNS, weights.pitch);
    _tile_dpbf16ps(0, 3, 1);
    _tile_dpbf16ps(0, 4, 2);
}

/*
 * The product in the order of the plan, sums[row][input] at the start of `sums`, a stack of SUM_FLOATS each.
 * Decoding is one chunk ahead, so that tiles are loaded when their weights have long been stored. Compiled
 * apart for each format.
 */
static inline __attribute__((always_inline)) void multiply_rows(const struct few_product *product,
                                                                enum weight_format format, float *sums) {
    _Alignas(CACHE_LINE_BYTES) uint16_t buffers[2][TILE_ROWS * CHUNK];
    const struct weight_block *block = product->block;
    int64_t used = product->row_count * product->width;
    int64_t pitch = product->width * (int64_t)sizeof *sums;
    struct weight_tiles tiles = weights_at(product, format, 0, buffers[0]);
    int depth = 0;
    for (int s = 0; s < block->leaves->step_count; s++) {
        const struct leaf_step *step = &block->leaves->steps[s];
        int64_t end = input_row_stride(step->end_column);
        float *leaf = sums + depth * used;
        _tile_zero(0);
        for (int64_t column = step->first_column; column < end; column += CHUNK) {
            int64_t next = column + CHUNK;
            struct weight_tiles next_tiles = tiles;
            if (next < block->stride) {
                next_tiles = weights_at(product, format, next, buffers[next / CHUNK % 2]);
            }
            multiply_chunk(product, column, tiles);
            tiles = next_tiles;
        }
        _tile_stored(0, leaf, pitch);
        depth = tile_sums_merge(sums, used, depth + 1, step->merge_count);
    }
}

static void multiply_format(const struct few_product *product, float *sums) {
    if (product->block->weight->format == WEIGHT_FP8) {
        multiply_rows(product, WEIGHT_FP8, sums);
    } else if (product->block->weight->format == WEIGHT_FP4) {
        multiply_rows(product, WEIGHT_FP4, sums);
    } else {
        multiply_rows(product, WEIGHT_PLAIN, sums);
    }
}

/* `rows` rows from first_row, whose scales are ready at `lowered`. */
static void multiply_group(struct few_product *product, int64_t first_row, int64_t rows, int64_t count,
                           const uint16_t *lowered, const struct matrix_sink *sink) {
    float sums[LEAF_STACK_MAX * SUM_FLOATS];
    if (rows != product->row_count) {
        load_config(rows, product->width);
        product->row_count = rows;
    }
    product->first = source_of(product->block, first_row, lowered);
    multiply_format(product, sums);
    for (int64_t m = 0; m < count; m++) {
        tile_sums_take(sums + m, product->width, m, first_row, rows, sink);
    }
}

/* Makes the scales of a block's rows ready; false if one is out of the fast range. `inputs` become scaled
 * ones where those carry the scales. */
static bool prepare_block(const struct weight_block *block, int64_t first_row, int64_t row_count,
                          const uint16_t **inputs, int64_t count) {
    if (block->weight->format == WEIGHT_FP8) {
        const uint16_t *unscaled = *inputs;
        *inputs = block->scaled_inputs;
        return matrix_stream_scale(block, first_row, first_row + row_count - 1, unscaled, count);
    }
    return block->weight->format == WEIGHT_PLAIN ||
           prepare_scales(block, first_row, row_count, block->lowered);
}

bool tile_few_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                       int64_t row_count, const void *inputs, int64_t count, void *scratch,
                       const struct matrix_sink *sink) {
    uint16_t *interleaved = scratch;
    int64_t stride = input_row_stride(weight->columns);
    struct weight_block block = weight_block_make(weight, leaves, interleaved + TILE_FEW_INPUTS * stride);
    const uint16_t *packed = inputs;
    if (!prepare_block(&block, first_row, row_count, &packed, count)) {
        return false;
    }
    struct few_product product = {.block = &block, .inputs = packed, .width = 1};
    product.code_pitch = code_bytes(weight->format, weight->columns);
    product.lowered_pitch = scale_count(&block);
    while (product.width < count) {
        product.width *= 2;
    }
    if (product.width > 1) {
        interleave_inputs(packed, stride, count, product.width, interleaved);
        product.inputs = interleaved;
    }
    for (int64_t first = 0; first < row_count; first += TILE_ROWS) {
        int64_t rows = row_count - first < TILE_ROWS ? row_count - first : TILE_ROWS;
        multiply_group(&product, first_row + first, rows, count,
                       block.lowered + first * product.lowered_pitch, sink);
    }
    _tile_release();
    return true;
}
