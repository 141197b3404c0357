/*
 * A block of weight rows is decoded to bf16 and turned into tiles of 16 column pairs by 16 rows; two tiles of
 * inputs meet two of weights.
 */
#include "backends/cpu/amx_bf16/tile_many.h"

#include <immintrin.h>

#include "backends/cpu/amx_bf16/tile_config.h"
#include "backends/cpu/amx_bf16/tile_sums.h"
#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/matrix_block.h"

enum {
    TILE_WORDS = TILE_ROWS * TILE_COLUMNS,
    SUM_FLOATS = 2 * TILE_ROWS * MATRIX_BLOCK_ROWS, /* of two tiles of inputs and both groups of rows */
};

/*
 * Tiles: 0-3 sums of (input tile, weight tile), 4-5 inputs, 6-7 weights. `first` and `second`: rows of the
 * two input tiles, 0 to 16.
 */
static void load_config(int64_t first, int64_t second) {
    struct tile_config config = {.palette = 1};
    for (int tile = 0; tile < TILE_COUNT; tile++) {
        int64_t rows = TILE_ROWS;
        if (tile < 6) {
            rows = tile == 0 || tile == 1 || tile == 4 ? first : second;
        }
        config.rows[tile] = (uint8_t)(rows > 0 ? rows : 1);
        config.bytes_wide[tile] = TILE_BYTES_WIDE;
    }
    _tile_loadconfig(&config);
}

/* Transposes 16 rows of 16 dwords. */
static void transpose(const uint16_t *rows, int64_t stride, uint16_t *out) {
    __m512i a[TILE_ROWS];
    __m512i b[TILE_ROWS];
    for (int i = 0; i < TILE_ROWS; i++) {
        a[i] = _mm512_loadu_si512(rows + i * stride);
    }
    for (int i = 0; i < TILE_ROWS; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < TILE_ROWS; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    /* a[4g + j] holds, in its 128-bit lane q, dword 4q + j of rows 4g to 4g + 3. */
    for (int j = 0; j < 4; j++) {
        __m512i low01 = _mm512_shuffle_i32x4(a[j], a[4 + j], _MM_SHUFFLE(1, 0, 1, 0));
        __m512i high01 = _mm512_shuffle_i32x4(a[j], a[4 + j], _MM_SHUFFLE(3, 2, 3, 2));
        __m512i low23 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], _MM_SHUFFLE(1, 0, 1, 0));
        __m512i high23 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], _MM_SHUFFLE(3, 2, 3, 2));
        _mm512_storeu_si512(out + (0 + j) * TILE_COLUMNS,
                            _mm512_shuffle_i32x4(low01, low23, _MM_SHUFFLE(2, 0, 2, 0)));
        _mm512_storeu_si512(out + (4 + j) * TILE_COLUMNS,
                            _mm512_shuffle_i32x4(low01, low23, _MM_SHUFFLE(3, 1, 3, 1)));
        _mm512_storeu_si512(out + (8 + j) * TILE_COLUMNS,
                            _mm512_shuffle_i32x4(high01, high23, _MM_SHUFFLE(2, 0, 2, 0)));
        _mm512_storeu_si512(out + (12 + j) * TILE_COLUMNS,
                            _mm512_shuffle_i32x4(high01, high23, _MM_SHUFFLE(3, 1, 3, 1)));
    }
}

static size_t tile_panel_bytes(int64_t columns) {
    return (size_t)(MATRIX_BLOCK_ROWS * input_row_stride(columns)) * sizeof(uint16_t);
}

size_t tile_many_scratch_bytes(int64_t columns) {
    return tile_panel_bytes(columns) + matrix_block_scratch_bytes(columns);
}

/* Weight tiles of a block: tiles[group][column block][16 pairs][16 rows][2]. The second group may be missing.
 */
static void make_tiles(const struct weight *weight, int64_t first_row, int64_t row_count, uint16_t *tiles,
                       void *scratch) {
    int64_t stride = input_row_stride(weight->columns);
    const uint16_t *rows = matrix_block_decode(weight, first_row, row_count, scratch);
    for (int64_t group = 0; group * TILE_ROWS < row_count; group++) {
        for (int64_t column = 0; column < stride; column += TILE_COLUMNS) {
            transpose(rows + group * TILE_ROWS * stride + column, stride,
                      tiles + (group * stride / TILE_COLUMNS + column / TILE_COLUMNS) * TILE_WORDS);
        }
    }
}

/* Up to 32 inputs, both groups of rows of a block, and how they lie. */
struct tile_product {
    const uint16_t *inputs;
    const uint16_t *tiles;
    int64_t stride;      /* columns of an input */
    int64_t first_count; /* inputs of the first tile */
    int64_t second_count;
    int64_t group_count;
};

/* The columns of one leaf, whole chunks: sums[32 inputs][32 rows]. */
static void multiply_leaf(const struct tile_product *product, int64_t first_column, int64_t end_column,
                          float *sums) {
    const int64_t stride = product->stride;
    const size_t input_bytes = (size_t)stride * sizeof *product->inputs;
    const bool has_second_inputs = product->second_count > 0;
    const bool has_second_rows = product->group_count > 1;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t column = first_column; column < end_column; column += TILE_COLUMNS) {
        const uint16_t *weights = product->tiles + column / TILE_COLUMNS * TILE_WORDS;
        _tile_loadd(4, product->inputs + column, input_bytes);
        _tile_loadd(6, weights, TILE_BYTES_WIDE);
        _tile_dpbf16ps(0, 4, 6);
        if (has_second_rows) {
            _tile_loadd(7, weights + stride / TILE_COLUMNS * TILE_WORDS, TILE_BYTES_WIDE);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (has_second_inputs) {
            _tile_loadd(5, product->inputs + TILE_ROWS * stride + column, input_bytes);
            _tile_dpbf16ps(2, 5, 6);
            if (has_second_rows) {
                _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    const size_t sum_bytes = MATRIX_BLOCK_ROWS * sizeof *sums;
    _tile_stored(0, sums, sum_bytes);
    _tile_stored(1, sums + TILE_ROWS, sum_bytes);
    if (has_second_inputs) {
        _tile_stored(2, sums + TILE_ROWS * MATRIX_BLOCK_ROWS, sum_bytes);
        _tile_stored(3, sums + TILE_ROWS * MATRIX_BLOCK_ROWS + TILE_ROWS, sum_bytes);
    }
}

/* The product in the order of the plan, at the start of `sums`, a stack of SUM_FLOATS each. */
static void multiply_tiles(const struct tile_product *product, const struct leaf_plan *leaves, float *sums) {
    int64_t used = (product->first_count + product->second_count) * MATRIX_BLOCK_ROWS;
    int depth = 0;
    load_config(product->first_count, product->second_count);
    for (int s = 0; s < leaves->step_count; s++) {
        const struct leaf_step *step = &leaves->steps[s];
        int64_t end = input_row_stride(step->end_column);
        multiply_leaf(product, step->first_column, end, sums + depth * used);
        depth = tile_sums_merge(sums, used, depth + 1, step->merge_count);
    }
}

void tile_many_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                        int64_t row_count, const void *inputs, int64_t count, void *scratch,
                        const struct matrix_sink *sink) {
    uint16_t *tiles = scratch;
    struct tile_product product = {.tiles = tiles, .stride = input_row_stride(weight->columns)};
    product.group_count = (row_count + TILE_ROWS - 1) / TILE_ROWS;
    make_tiles(weight, first_row, row_count, tiles, (char *)scratch + tile_panel_bytes(weight->columns));
    for (int64_t m = 0; m < count; m += 2 * TILE_ROWS) {
        float sums[LEAF_STACK_MAX * SUM_FLOATS];
        int64_t tile_count = count - m < 2 * TILE_ROWS ? count - m : 2 * TILE_ROWS;
        product.inputs = (const uint16_t *)inputs + m * product.stride;
        product.second_count = tile_count > TILE_ROWS ? tile_count - TILE_ROWS : 0;
        product.first_count = tile_count - product.second_count;
        multiply_tiles(&product, leaves, sums);
        for (int64_t i = 0; i < tile_count; i++) {
            tile_sums_take(sums + i * MATRIX_BLOCK_ROWS, 1, m + i, first_row, row_count, sink);
        }
    }
    _tile_release();
}
