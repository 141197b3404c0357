/* Few inputs stream the weights, many meet a panel of decoded rows; and the exceptions. */
#include "backends/cpu/avx512_bf16/matrix_block.h"

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/matrix_rows.h"
#include "backends/cpu/avx512_bf16/matrix_stream.h"
#include "ops/kernel_items.h"

enum {
    TILE_ROWS = 4, /* of a panel tile */
    TILE_INPUTS = TILE_RESULTS / TILE_ROWS,
    /*
     * Inputs of a wide tile, for leaves of more columns than that: four such inputs and four such rows are
     * more than an L1 cache holds, so that each number should meet more others when it comes from the L2
     * cache. For shorter leaves more results of a tile mean more time between two tiles.
     */
    WIDE_INPUTS = 6,
    WIDE_COLUMNS_ABOVE = 2048,
    TILE_PARTS = (WIDE_INPUTS + TILE_INPUTS - 1) / TILE_INPUTS, /* vectors of results */
    VECTOR_WORDS = 32,
    CACHE_LINE_BYTES = 64,
};

/* Scratch: the panel, one row of floats for the slow decoder, scales of FP4 rows, scaled inputs. */
static size_t panel_bytes(int64_t columns) {
    return (size_t)(MATRIX_BLOCK_ROWS * input_row_stride(columns)) * sizeof(uint16_t);
}

size_t matrix_block_scratch_bytes(int64_t columns) {
    size_t bytes = panel_bytes(columns) + (size_t)input_row_stride(columns) * sizeof(float) +
                   lowered_words(columns, MATRIX_BLOCK_ROWS) * sizeof(uint16_t) +
                   (size_t)(STREAM_INPUTS * input_row_stride(columns)) * sizeof(uint16_t);
    return kernel_workspace_bytes(bytes);
}

bool matrix_block_takes(const struct weight *weight) {
    if (weight->format == WEIGHT_PLAIN) {
        return weight->dtype == DTYPE_BF16;
    }
    return weight->scale_dtype == DTYPE_F8_E8M0;
}

/*
 * Where a decoded row goes: vectors of 32 columns, `pitch` words from one to the next. Alone a row's vectors
 * lie side by side; those of the TILE_ROWS rows of a panel tile take turns, so that the tile is one stream.
 */
struct panel_row {
    uint16_t *words;
    int64_t pitch;
};

static inline void store_vector(const struct panel_row *to, int64_t column, __m512i words) {
    _mm512_storeu_si512(to->words + column / VECTOR_WORDS * to->pitch, words);
}

/* Decodes a row by the decoder of tensor/weight.h: any scale, any code. */
static void decode_row_slowly(const struct weight_block *block, int64_t row, const struct panel_row *to) {
    weight_decode_row(block->weight, row, block->floats);
    uint16_t *words = (uint16_t *)block->floats;
    for (int64_t i = 0; i < block->columns; i++) {
        words[i] = bf16_encode(block->floats[i]);
    }
    uint16_t *packed = block->scaled_inputs; /* a panel's inputs are not scaled: nobody else uses them */
    input_row_pack(block->weight->format, false, words, block->columns, packed);
    for (int64_t column = 0; column < block->stride; column += VECTOR_WORDS) {
        store_vector(to, column, _mm512_loadu_si512(packed + column));
    }
}

/*
 * Asks for what the chunk at `column` will be a panel later. It arrives while this panel is multiplied: else
 * a panel would begin by waiting for memory, and again at every small page. Addresses past the weights do no
 * harm.
 */
static inline __attribute__((always_inline)) void prefetch_next_panel(const struct weight_block *block,
                                                                      enum weight_format format,
                                                                      const struct row_source *source,
                                                                      int64_t column) {
    const char *ahead = (const char *)source->codes + code_bytes(format, ROWS * block->columns + column);
    for (int64_t i = 0; i < code_bytes(format, CHUNK); i += CACHE_LINE_BYTES) {
        _mm_prefetch(ahead + i, _MM_HINT_T1);
    }
}

/* One row in the fast way; false if a code was a NaN. Compiled apart for each format. */
static inline __attribute__((always_inline)) bool decode_row_fast(const struct weight_block *block,
                                                                  enum weight_format format,
                                                                  const struct row_source *source,
                                                                  const struct panel_row *to) {
    __mmask64 nan_codes = 0;
    for (int64_t column = 0; column < block->columns; column += CHUNK) {
        prefetch_next_panel(block, format, source, column);
        struct bf16_chunk chunk = decode_chunk(block, format, source, column, block->columns - column);
        if (format == WEIGHT_FP8) {
            nan_codes |= fp8_find_nan(source->codes + column, columns_mask(block->columns - column));
        }
        store_vector(to, column, chunk.first);
        store_vector(to, column + VECTOR_WORDS, chunk.second);
    }
    return nan_codes == 0;
}

static void decode_row(const struct weight_block *block, int64_t row, const struct panel_row *to) {
    enum weight_format format = block->weight->format;
    bool is_done = format == WEIGHT_PLAIN || prepare_scales(block, row, 1, block->lowered);
    struct row_source source = source_of(block, row, block->lowered);
    if (is_done && format == WEIGHT_FP8) {
        is_done = decode_row_fast(block, WEIGHT_FP8, &source, to);
    } else if (is_done && format == WEIGHT_FP4) {
        is_done = decode_row_fast(block, WEIGHT_FP4, &source, to);
    } else if (is_done) {
        is_done = decode_row_fast(block, WEIGHT_PLAIN, &source, to);
    }
    if (!is_done) {
        decode_row_slowly(block, row, to);
    }
}

/* Some inputs, TILE_INPUTS or WIDE_INPUTS of them. */
struct panel_tile {
    const uint16_t *inputs[WIDE_INPUTS];
    int64_t first; /* the number of the first input */
    int64_t count; /* inputs that there are; the others repeat the last one */
};

/*
 * Columns first to end, whole chunks, of a tile's inputs times four panel rows: lane 4m + r of leaf[m / 4] is
 * input m, row r. Compiled apart for each number of inputs.
 */
static inline __attribute__((always_inline)) void multiply_leaf(const uint16_t *panel,
                                                                const struct panel_tile *tile,
                                                                int input_count, int64_t first, int64_t end,
                                                                __m512 *leaf) {
    __m512 lanes[WIDE_INPUTS * TILE_ROWS];
    for (int i = 0; i < input_count * TILE_ROWS; i++) {
        lanes[i] = _mm512_setzero_ps();
    }
    for (int64_t column = first; column < end; column += VECTOR_WORDS) {
        __m512bh weights[TILE_ROWS];
        for (int r = 0; r < TILE_ROWS; r++) {
            weights[r] = (__m512bh)_mm512_loadu_si512(panel + TILE_ROWS * column + r * VECTOR_WORDS);
        }
        for (int m = 0; m < input_count; m++) {
            __m512bh input = (__m512bh)_mm512_loadu_si512(tile->inputs[m] + column);
            for (int r = 0; r < TILE_ROWS; r++) {
                lanes[m * TILE_ROWS + r] = _mm512_dpbf16_ps(lanes[m * TILE_ROWS + r], weights[r], input);
            }
        }
    }
    leaf[0] = sum_lanes(lanes, TILE_RESULTS);
    if (input_count > TILE_INPUTS) {
        leaf[1] = sum_lanes(lanes + TILE_RESULTS, (input_count - TILE_INPUTS) * TILE_ROWS);
    }
}

/* A tile's inputs times four panel rows: out[m / 4 * part_pitch][4 (m % 4) + r]. */
static inline __attribute__((always_inline)) void
multiply_tile(const struct weight_block *block, const uint16_t *panel, const struct panel_tile *tile,
              int input_count, float (*out)[TILE_RESULTS], int64_t part_pitch) {
    const int parts = (input_count + TILE_INPUTS - 1) / TILE_INPUTS;
    __m512 sums[TILE_PARTS][LEAF_STACK_MAX];
    int depth = 0;
    int s = 0;
    do {
        const struct leaf_step *step = &block->leaves->steps[s];
        int64_t end = input_row_stride(step->end_column);
        __m512 leaf[TILE_PARTS];
        int next = depth;
        multiply_leaf(panel, tile, input_count, step->first_column, end, leaf);
        for (int part = 0; part < parts; part++) {
            next = push_leaf(sums[part], depth, leaf[part], step->merge_count);
        }
        depth = next;
    } while (++s < block->leaves->step_count);
    for (int part = 0; part < parts; part++) {
        store_root(out[part * part_pitch], sums[part][0]);
    }
}

/* A tile's inputs times all panel rows. */
static inline __attribute__((always_inline)) void
multiply_rows(const struct weight_block *block, const struct panel_tile *tile, int input_count,
              int64_t first_row, int64_t row_count, const struct matrix_sink *sink) {
    for (int64_t first = 0; first < row_count; first += ROWS) {
        float groups[TILE_PARTS][ROWS / TILE_ROWS][TILE_RESULTS];
        int64_t rows = row_count - first < ROWS ? row_count - first : ROWS;
        for (int64_t group = 0; group < ROWS; group += TILE_ROWS) {
            multiply_tile(block, block->panel + (first + group) * block->stride, tile, input_count,
                          &groups[0][group / TILE_ROWS], ROWS / TILE_ROWS);
        }
        for (int64_t i = 0; i < tile->count; i++) {
            take_rows(groups[i / TILE_INPUTS], TILE_ROWS, i % TILE_INPUTS, tile->first + i, first_row + first,
                      rows, sink);
        }
    }
}

static void multiply_panel(const struct weight_block *block, int64_t first_row, int64_t row_count,
                           const uint16_t *inputs, int64_t count, const struct matrix_sink *sink) {
    bool has_long_leaves = block->columns > WIDE_COLUMNS_ABOVE * block->leaves->step_count;
    struct panel_tile tile = {.first = 0};
    for (; tile.first < count; tile.first += tile.count) {
        int64_t left = count - tile.first;
        bool is_wide = has_long_leaves && left > TILE_INPUTS;
        int64_t width = is_wide ? WIDE_INPUTS : TILE_INPUTS;
        tile.count = left < width ? left : width;
        for (int64_t i = 0; i < width; i++) {
            tile.inputs[i] = inputs + (tile.first + (i < tile.count ? i : tile.count - 1)) * block->stride;
        }
        if (is_wide) {
            multiply_rows(block, &tile, WIDE_INPUTS, first_row, row_count, sink);
        } else {
            multiply_rows(block, &tile, TILE_INPUTS, first_row, row_count, sink);
        }
    }
}

/* Decodes a panel once; rows that fill up its last sixteen are zeroed. `is_tiled`: as multiply_tile reads it.
 */
static void fill_panel(const struct weight_block *block, int64_t first_row, int64_t row_count,
                       bool is_tiled) {
    int64_t padded = (row_count + ROWS - 1) / ROWS * ROWS;
    for (int64_t r = 0; r < padded; r++) {
        struct panel_row to = {block->panel + r * block->stride, VECTOR_WORDS};
        if (is_tiled) {
            to.words =
                block->panel + r / TILE_ROWS * TILE_ROWS * block->stride + r % TILE_ROWS * VECTOR_WORDS;
            to.pitch = TILE_ROWS * VECTOR_WORDS;
        }
        if (r < row_count) {
            decode_row(block, first_row + r, &to);
            continue;
        }
        for (int64_t column = 0; column < block->stride; column += VECTOR_WORDS) {
            store_vector(&to, column, _mm512_setzero_si512());
        }
    }
}

struct weight_block weight_block_make(const struct weight *weight, const struct leaf_plan *leaves,
                                      void *scratch) {
    struct weight_block block = {.weight = weight, .leaves = leaves, .columns = weight->columns};
    block.stride = input_row_stride(weight->columns);
    block.panel = scratch;
    block.floats = (float *)(void *)((char *)scratch + panel_bytes(weight->columns));
    block.lowered = (uint16_t *)(block.floats + block.stride);
    block.scaled_inputs = block.lowered + lowered_words(weight->columns, MATRIX_BLOCK_ROWS);
    if (weight->format == WEIGHT_FP8) {
        block.fp8 = fp8_table_load();
        block.fp8_plain = fp8_plain_table_load();
    } else if (weight->format == WEIGHT_FP4) {
        block.fp4 = fp4_table_load();
    }
    return block;
}

void matrix_block_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                           int64_t row_count, const void *inputs, int64_t count, void *scratch,
                           const struct matrix_sink *sink) {
    struct weight_block block = weight_block_make(weight, leaves, scratch);
    const uint16_t *streamed = inputs;
    bool streams = count >= 1 && count <= STREAM_INPUTS;
    if (streams && weight->format == WEIGHT_FP8) {
        streams = matrix_stream_scale(&block, first_row, first_row + row_count - 1, inputs, count);
        streamed = block.scaled_inputs;
    }
    if (streams && matrix_stream_multiply(&block, first_row, row_count, streamed, count, sink)) {
        return;
    }
    /* A panel is as high as it can be: inputs come from beyond the L2 cache for each, if they are many. */
    fill_panel(&block, first_row, row_count, true);
    multiply_panel(&block, first_row, row_count, inputs, count, sink);
}

const uint16_t *matrix_block_decode(const struct weight *weight, int64_t first_row, int64_t row_count,
                                    void *scratch) {
    struct weight_block block = weight_block_make(weight, NULL, scratch);
    fill_panel(&block, first_row, row_count, false);
    return block.panel;
}
