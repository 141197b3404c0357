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
    VECTOR_WORDS = 32,
    CACHE_LINE_BYTES = 64,
    /* More inputs than that come from beyond the L2 cache each time: the panel is as high as it can be. */
    INPUT_BYTES_NEAR = 2 << 20,
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

/* Columns first to end, whole chunks, of four inputs times four panel rows: lane 4m + r. */
static inline __m512 multiply_leaf(const uint16_t *panel, const uint16_t *const *inputs, int64_t first,
                                   int64_t end) {
    __m512 lanes[TILE_RESULTS];
    for (int i = 0; i < TILE_RESULTS; i++) {
        lanes[i] = _mm512_setzero_ps();
    }
    for (int64_t column = first; column < end; column += VECTOR_WORDS) {
        __m512bh weights[TILE_ROWS];
        for (int r = 0; r < TILE_ROWS; r++) {
            weights[r] = (__m512bh)_mm512_loadu_si512(panel + TILE_ROWS * column + r * VECTOR_WORDS);
        }
        for (int m = 0; m < TILE_INPUTS; m++) {
            __m512bh input = (__m512bh)_mm512_loadu_si512(inputs[m] + column);
            for (int r = 0; r < TILE_ROWS; r++) {
                lanes[m * TILE_ROWS + r] = _mm512_dpbf16_ps(lanes[m * TILE_ROWS + r], weights[r], input);
            }
        }
    }
    return sum_lanes(lanes, TILE_RESULTS);
}

/* Four inputs times four panel rows: out[4m + r]. */
static void multiply_tile(const struct weight_block *block, const uint16_t *panel,
                          const uint16_t *const *inputs, float *out) {
    __m512 sums[LEAF_STACK_MAX];
    int depth = 0;
    int s = 0;
    do {
        const struct leaf_step *step = &block->leaves->steps[s];
        int64_t end = input_row_stride(step->end_column);
        __m512 leaf = multiply_leaf(panel, inputs, step->first_column, end);
        depth = push_leaf(sums, depth, leaf, step->merge_count);
    } while (++s < block->leaves->step_count);
    store_root(out, sums[0]);
}

static void multiply_panel(const struct weight_block *block, int64_t first_row, int64_t row_count,
                           const uint16_t *inputs, int64_t count, const struct matrix_sink *sink) {
    for (int64_t m = 0; m < count; m += TILE_INPUTS) {
        const uint16_t *tile[TILE_INPUTS];
        int64_t tile_count = count - m < TILE_INPUTS ? count - m : TILE_INPUTS;
        for (int64_t i = 0; i < TILE_INPUTS; i++) {
            tile[i] = inputs + (m + (i < tile_count ? i : tile_count - 1)) * block->stride;
        }
        for (int64_t first = 0; first < row_count; first += ROWS) {
            float groups[ROWS / TILE_ROWS][TILE_RESULTS];
            int64_t rows = row_count - first < ROWS ? row_count - first : ROWS;
            for (int64_t group = 0; group < ROWS; group += TILE_ROWS) {
                multiply_tile(block, block->panel + (first + group) * block->stride, tile,
                              groups[group / TILE_ROWS]);
            }
            for (int64_t i = 0; i < tile_count; i++) {
                take_rows(groups, TILE_ROWS, i, m + i, first_row + first, rows, sink);
            }
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

static struct weight_block make_block(const struct weight *weight, const struct leaf_plan *leaves,
                                      void *scratch) {
    struct weight_block block = {.weight = weight, .leaves = leaves, .columns = weight->columns};
    block.stride = input_row_stride(weight->columns);
    block.panel = scratch;
    block.floats = (float *)(void *)((char *)scratch + panel_bytes(weight->columns));
    block.lowered = (uint16_t *)(block.floats + block.stride);
    block.scaled_inputs = block.lowered + lowered_words(weight->columns, ROWS);
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
    struct weight_block block = make_block(weight, leaves, scratch);
    const uint16_t *streamed = inputs;
    bool streams = count >= 1 && count <= STREAM_INPUTS;
    if (streams && weight->format == WEIGHT_FP8) {
        streams = matrix_stream_scale(&block, first_row, first_row + row_count - 1, inputs, count);
        streamed = block.scaled_inputs;
    }
    int64_t input_bytes = count * block.stride * (int64_t)sizeof(uint16_t);
    if (streams && matrix_stream_multiply(&block, first_row, row_count, streamed, count, sink)) {
        return;
    }
    int64_t step = input_bytes <= INPUT_BYTES_NEAR ? ROWS : MATRIX_BLOCK_ROWS;
    for (int64_t first = 0; first < row_count; first += step) {
        int64_t rows = row_count - first < step ? row_count - first : step;
        fill_panel(&block, first_row + first, rows, true);
        multiply_panel(&block, first_row + first, rows, inputs, count, sink);
    }
}

const uint16_t *matrix_block_decode(const struct weight *weight, int64_t first_row, int64_t row_count,
                                    void *scratch) {
    struct weight_block block = make_block(weight, NULL, scratch);
    fill_panel(&block, first_row, row_count, false);
    return block.panel;
}
