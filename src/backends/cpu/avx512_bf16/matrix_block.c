/* Register path for few inputs, panel path for many, and the exceptions. */
#include "backends/cpu/avx512_bf16/matrix_block.h"

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/weight_decode.h"
#include "backends/cpu/lanes/lanes.h"
#include "ops/kernel_items.h"

enum {
    ROWS = 16,       /* results that are handed out together, and results of a tile */
    ROW_GROUP = 4,   /* weight rows that are streamed side by side */
    FEW_INPUTS = 4,  /* up to here weights are decoded in registers */
    TILE_INPUTS = 4, /* inputs of a panel tile */
    /*
     * How far ahead of its use a weight byte is asked for. Rows are short streams, four at a time, and each
     * would start cold: the processor's own prefetcher does not know that the next rows follow.
     */
    PREFETCH_BYTES = 16384,
};

/* Scratch: the panel, one row of floats for the slow decoder, scales of four FP4 rows, scaled inputs. */
static size_t panel_bytes(int64_t columns) {
    return (size_t)(MATRIX_BLOCK_ROWS * input_row_stride(columns)) * sizeof(uint16_t);
}

static size_t lowered_words(int64_t columns) {
    return (size_t)(input_row_stride(columns) / WEIGHT_FP4_GROUP + 32);
}

size_t matrix_block_scratch_bytes(int64_t columns) {
    size_t bytes = panel_bytes(columns) + (size_t)input_row_stride(columns) * sizeof(float) +
                   ROW_GROUP * lowered_words(columns) * sizeof(uint16_t) +
                   (size_t)(FEW_INPUTS * input_row_stride(columns)) * sizeof(uint16_t);
    return kernel_workspace_bytes(bytes);
}

bool matrix_block_takes(const struct weight *weight) {
    if (weight->format == WEIGHT_PLAIN) {
        return weight->dtype == DTYPE_BF16;
    }
    return weight->scale_dtype == DTYPE_F8_E8M0;
}

/* Where one weight row lies and how its scales are found. */
struct row_source {
    const uint8_t *codes;
    const uint16_t *lowered; /* FP4: per group; FP8: per block of 128 */
};

/* The parts of a block that are the same for all rows. */
struct block {
    const struct weight *weight;
    const struct leaf_plan *leaves;
    int64_t columns;
    int64_t stride; /* columns, padded */
    uint16_t *panel;
    float *floats;
    uint16_t *lowered;
    uint16_t *scaled_inputs; /* (FEW_INPUTS, stride) */
    struct fp8_table fp8;
    struct fp8_table fp8_plain;
    __m512i fp4;
};

static __mmask64 columns_mask(int64_t left) {
    return left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
}

/* Scales of a row as words to lower exponents by; false if one is out of the fast range. */
static bool prepare_scales(const struct block *block, int64_t row, uint16_t *lowered) {
    const struct weight *weight = block->weight;
    bool is_fp8 = weight->format == WEIGHT_FP8;
    int64_t unit = is_fp8 ? WEIGHT_FP8_BLOCK : WEIGHT_FP4_GROUP;
    int64_t count = (block->columns + unit - 1) / unit;
    const uint8_t *scales =
        (const uint8_t *)weight->scales + (is_fp8 ? row / WEIGHT_FP8_BLOCK * count : row * count);
    int largest = is_fp8 ? FP8_SCALE_LARGEST : FP4_SCALE_LARGEST;
    _mm_prefetch((const char *)scales + ROWS * count, _MM_HINT_T0);
    __m512i highest = _mm512_set1_epi16((short)largest);
    __mmask32 is_outside = 0;
    for (int64_t i = 0; i < count; i += 32) {
        __mmask32 mask = count - i >= 32 ? 0xFFFFFFFFu : (1u << (count - i)) - 1;
        __m512i scale = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, scales + i));
        is_outside |= _mm512_mask_cmpgt_epu16_mask(mask, scale, highest);
        if (!is_fp8) {
            is_outside |= _mm512_mask_testn_epi16_mask(mask, scale, scale);
        }
        __m512i words = _mm512_slli_epi16(_mm512_sub_epi16(highest, scale), BF16_EXPONENT_SHIFT);
        _mm512_storeu_si512(lowered + i, words);
    }
    return is_outside == 0;
}

static struct row_source source_of(const struct block *block, int64_t row, const uint16_t *lowered) {
    int64_t elements = row * block->columns;
    size_t bytes = (size_t)elements * 2;
    if (block->weight->format == WEIGHT_FP8) {
        bytes = (size_t)elements;
    } else if (block->weight->format == WEIGHT_FP4) {
        bytes = (size_t)elements / 2;
    }
    return (struct row_source){(const uint8_t *)block->weight->data + bytes, lowered};
}

/* The chunk that starts at `column`, in the fast way. */
static inline __attribute__((always_inline)) struct bf16_chunk decode_chunk(const struct block *block,
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

/* Asks for the chunk's bytes of rows to come. Addresses past the weights do no harm. */
static inline __attribute__((always_inline)) void
prefetch_chunk(enum weight_format format, const struct row_source *row, int64_t column) {
    const char *codes = (const char *)row->codes + PREFETCH_BYTES;
    if (format == WEIGHT_FP4) {
        if (column % (2 * CHUNK) == 0) {
            _mm_prefetch(codes + column / 2, _MM_HINT_T0);
        }
    } else if (format == WEIGHT_FP8) {
        _mm_prefetch(codes + column, _MM_HINT_T0);
    } else {
        _mm_prefetch(codes + 2 * column, _MM_HINT_T0);
        _mm_prefetch(codes + 2 * column + 64, _MM_HINT_T0);
    }
}

static inline __m512 dot_chunk(__m512 sum, struct bf16_chunk weights, const uint16_t *input) {
    __m512 part = _mm512_dpbf16_ps(sum, (__m512bh)weights.first, (__m512bh)_mm512_loadu_si512(input));
    return _mm512_dpbf16_ps(part, (__m512bh)weights.second, (__m512bh)_mm512_loadu_si512(input + 32));
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
 * The sums of the lanes by the adjacent binary tree, of four rows for each of `count` inputs: lane 4m + r of
 * the result. Missing inputs repeat others, whose sums the compiler then makes once.
 */
static inline __attribute__((always_inline)) __m512 sum_lanes(__m512 (*lanes)[ROW_GROUP], int count) {
    __m512 quarters[FEW_INPUTS];
    for (int m = 0; m < count; m++) {
        quarters[m] = pair_sums(pair_sums(lanes[m][0], lanes[m][1]), pair_sums(lanes[m][2], lanes[m][3]));
    }
    for (int m = count; m < FEW_INPUTS; m++) {
        quarters[m] = quarters[m & (count - 1)];
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

/* One chunk of four rows. FP8 codes come without their scale: the inputs carry it. */
static inline __attribute__((always_inline)) void
stream_chunk(const struct block *block, enum weight_format format, const struct row_source *rows,
             const uint16_t *inputs, int count, int64_t column, int64_t left, __m512 (*lanes)[ROW_GROUP]) {
    for (int r = 0; r < ROW_GROUP; r++) {
        prefetch_chunk(format, &rows[r], column);
        struct bf16_chunk chunk =
            format == WEIGHT_FP8
                ? fp8_decode_plain(&block->fp8_plain, rows[r].codes + column, columns_mask(left))
                : decode_chunk(block, format, &rows[r], column, left);
        for (int m = 0; m < count; m++) {
            lanes[m][r] = dot_chunk(lanes[m][r], chunk, inputs + m * block->stride + column);
        }
    }
}

/* Sums of ROW_GROUP rows with `count` inputs, weights decoded in registers: out[4m + r]. */
static inline __attribute__((always_inline)) void stream_rows(const struct block *block,
                                                              enum weight_format format,
                                                              const struct row_source *rows,
                                                              const uint16_t *inputs, int count, float *out) {
    __m512 sums[LEAF_STACK_MAX];
    int depth = 0;
    int s = 0;
    do {
        const struct leaf_step *step = &block->leaves->steps[s];
        __m512 lanes[FEW_INPUTS][ROW_GROUP];
        for (int m = 0; m < count; m++) {
            for (int r = 0; r < ROW_GROUP; r++) {
                lanes[m][r] = _mm512_setzero_ps();
            }
        }
        int64_t whole = step->end_column - step->end_column % CHUNK;
        for (int64_t column = step->first_column; column < whole; column += CHUNK) {
            stream_chunk(block, format, rows, inputs, count, column, CHUNK, lanes);
        }
        if (whole < step->end_column) {
            stream_chunk(block, format, rows, inputs, count, whole, step->end_column - whole, lanes);
        }
        depth = push_leaf(sums, depth, sum_lanes(lanes, count), step->merge_count);
    } while (++s < block->leaves->step_count);
    store_root(out, sums[0]);
}

/* One specialised loop per format and number of inputs. */
#define STREAM_COUNT(format)                              \
    switch (count) {                                      \
    case 1:                                               \
        stream_rows(block, format, rows, inputs, 1, out); \
        break;                                            \
    case 2:                                               \
        stream_rows(block, format, rows, inputs, 2, out); \
        break;                                            \
    case 3:                                               \
        stream_rows(block, format, rows, inputs, 3, out); \
        break;                                            \
    default:                                              \
        stream_rows(block, format, rows, inputs, 4, out); \
        break;                                            \
    }

static void stream_fp8(const struct block *block, const struct row_source *rows, const uint16_t *inputs,
                       int64_t count, float *out) {
    STREAM_COUNT(WEIGHT_FP8)
}

static void stream_fp4(const struct block *block, const struct row_source *rows, const uint16_t *inputs,
                       int64_t count, float *out) {
    STREAM_COUNT(WEIGHT_FP4)
}

static void stream_plain(const struct block *block, const struct row_source *rows, const uint16_t *inputs,
                         int64_t count, float *out) {
    STREAM_COUNT(WEIGHT_PLAIN)
}

/* Hands out what `groups` has of an input: per four rows, four numbers for each of four inputs. */
static void finish_rows(float (*groups)[ROWS], int64_t m, int64_t input, int64_t first_row, int64_t row_count,
                        const struct matrix_sink *sink) {
    float values[ROWS];
    for (int64_t group = 0; group < ROWS / ROW_GROUP; group++) {
        memcpy(values + group * ROW_GROUP, groups[group] + m * ROW_GROUP, ROW_GROUP * sizeof *values);
    }
    sink->take(sink->context, input, first_row, row_count, values);
}

/* Sources of the four rows from `row`; rows past the block repeat its last, their results are dropped. */
static bool prepare_group(const struct block *block, int64_t row, int64_t last_row, struct row_source *rows) {
    bool is_fast = true;
    for (int r = 0; r < ROW_GROUP; r++) {
        int64_t at = row + r < last_row ? row + r : last_row;
        uint16_t *lowered = block->lowered + (size_t)r * lowered_words(block->columns);
        if (block->weight->format == WEIGHT_FP4) {
            is_fast = prepare_scales(block, at, lowered) && is_fast;
        }
        rows[r] = source_of(block, at, lowered);
    }
    return is_fast;
}

/* A packed vector of bf16 times a power of two: exact. */
static __m512i scale_words(__m512i words, __m512 scale) {
    __m512 low =
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)), 16));
    __m512 high = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)), 16));
    __m512i low_bits = _mm512_srli_epi32(_mm512_castps_si512(_mm512_mul_ps(low, scale)), 16);
    __m512i high_bits = _mm512_srli_epi32(_mm512_castps_si512(_mm512_mul_ps(high, scale)), 16);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low_bits)),
                              _mm512_cvtepi32_epi16(high_bits), 1);
}

/*
 * Inputs times the scales of FP8 rows first_row .. last_row, which must lie in one block of 128 rows:
 * products are the same as with scaled weights. False if they do not, or a scale is so extreme that an input
 * could leave the range of bf16.
 */
static bool scale_inputs(const struct block *block, int64_t first_row, int64_t last_row,
                         const uint16_t *inputs, int64_t count) {
    enum { SCALE_SMALLEST = 64, SCALE_LARGEST = 190 };
    int64_t blocks = (block->columns + WEIGHT_FP8_BLOCK - 1) / WEIGHT_FP8_BLOCK;
    const uint8_t *scales = (const uint8_t *)block->weight->scales + first_row / WEIGHT_FP8_BLOCK * blocks;
    if (first_row / WEIGHT_FP8_BLOCK != last_row / WEIGHT_FP8_BLOCK) {
        return false;
    }
    for (int64_t column = 0; column < block->stride; column += 32) {
        uint8_t byte = scales[column / WEIGHT_FP8_BLOCK];
        if (byte < SCALE_SMALLEST || byte > SCALE_LARGEST) {
            return false;
        }
        __m512 scale = _mm512_set1_ps(e8m0_decode(byte));
        for (int64_t m = 0; m < count; m++) {
            __m512i words = _mm512_loadu_si512(inputs + m * block->stride + column);
            _mm512_storeu_si512(block->scaled_inputs + m * block->stride + column, scale_words(words, scale));
        }
    }
    return true;
}

/*
 * Few inputs, which for FP8 are scaled already: false, with nothing handed out, if a row needs the panel's
 * way.
 */
static bool multiply_streaming(const struct block *block, int64_t first_row, int64_t row_count,
                               const uint16_t *inputs, int64_t count, const struct matrix_sink *sink) {
    float groups[ROWS / ROW_GROUP][ROWS];
    int64_t last_row = first_row + row_count - 1;
    for (int64_t group = 0; group < ROWS; group += ROW_GROUP) {
        struct row_source rows[ROW_GROUP];
        if (!prepare_group(block, first_row + group, last_row, rows)) {
            return false;
        }
        float *target = groups[group / ROW_GROUP];
        if (block->weight->format == WEIGHT_FP8) {
            stream_fp8(block, rows, inputs, count, target);
        } else if (block->weight->format == WEIGHT_FP4) {
            stream_fp4(block, rows, inputs, count, target);
        } else {
            stream_plain(block, rows, inputs, count, target);
        }
    }
    for (int64_t m = 0; m < count; m++) {
        finish_rows(groups, m, m, first_row, row_count, sink);
    }
    return true;
}

/* Decodes a row into the panel by the decoder of tensor/weight.h: any scale, any code. */
static void decode_row_slowly(const struct block *block, int64_t row, uint16_t *panel_row) {
    weight_decode_row(block->weight, row, block->floats);
    uint16_t *words = (uint16_t *)block->floats;
    for (int64_t i = 0; i < block->columns; i++) {
        words[i] = bf16_encode(block->floats[i]);
    }
    input_row_pack(block->weight->format, false, words, block->columns, panel_row);
}

/* One row in the fast way; false if a code was a NaN. Compiled apart for each format. */
static inline __attribute__((always_inline)) bool decode_row_fast(const struct block *block,
                                                                  enum weight_format format,
                                                                  const struct row_source *source,
                                                                  uint16_t *panel_row) {
    __mmask64 nan_codes = 0;
    for (int64_t column = 0; column < block->columns; column += CHUNK) {
        struct bf16_chunk chunk = decode_chunk(block, format, source, column, block->columns - column);
        if (format == WEIGHT_FP8) {
            nan_codes |= fp8_find_nan(source->codes + column, columns_mask(block->columns - column));
        }
        _mm512_storeu_si512(panel_row + column, chunk.first);
        _mm512_storeu_si512(panel_row + column + 32, chunk.second);
    }
    return nan_codes == 0;
}

static void decode_row(const struct block *block, int64_t row, uint16_t *panel_row) {
    enum weight_format format = block->weight->format;
    bool is_done = format == WEIGHT_PLAIN || prepare_scales(block, row, block->lowered);
    struct row_source source = source_of(block, row, block->lowered);
    if (is_done && format == WEIGHT_FP8) {
        is_done = decode_row_fast(block, WEIGHT_FP8, &source, panel_row);
    } else if (is_done && format == WEIGHT_FP4) {
        is_done = decode_row_fast(block, WEIGHT_FP4, &source, panel_row);
    } else if (is_done) {
        is_done = decode_row_fast(block, WEIGHT_PLAIN, &source, panel_row);
    }
    if (!is_done) {
        decode_row_slowly(block, row, panel_row);
    }
}

/* Columns first to end, whole chunks, of four inputs times four panel rows: lane 4m + r. */
static inline __m512 multiply_leaf(const struct block *block, const uint16_t *panel,
                                   const uint16_t *const *inputs, int64_t first, int64_t end) {
    __m512 lanes[TILE_INPUTS][ROW_GROUP];
    for (int m = 0; m < TILE_INPUTS; m++) {
        for (int r = 0; r < ROW_GROUP; r++) {
            lanes[m][r] = _mm512_setzero_ps();
        }
    }
    for (int64_t column = first; column < end; column += 32) {
        __m512bh weights[ROW_GROUP];
        for (int r = 0; r < ROW_GROUP; r++) {
            weights[r] = (__m512bh)_mm512_loadu_si512(panel + r * block->stride + column);
        }
        for (int m = 0; m < TILE_INPUTS; m++) {
            __m512bh input = (__m512bh)_mm512_loadu_si512(inputs[m] + column);
            for (int r = 0; r < ROW_GROUP; r++) {
                lanes[m][r] = _mm512_dpbf16_ps(lanes[m][r], weights[r], input);
            }
        }
    }
    return sum_lanes(lanes, TILE_INPUTS);
}

/* Four inputs times four panel rows: out[4m + r]. */
static void multiply_tile(const struct block *block, const uint16_t *panel, const uint16_t *const *inputs,
                          float *out) {
    __m512 sums[LEAF_STACK_MAX];
    int depth = 0;
    int s = 0;
    do {
        const struct leaf_step *step = &block->leaves->steps[s];
        int64_t end = input_row_stride(step->end_column);
        __m512 leaf = multiply_leaf(block, panel, inputs, step->first_column, end);
        depth = push_leaf(sums, depth, leaf, step->merge_count);
    } while (++s < block->leaves->step_count);
    store_root(out, sums[0]);
}

static void multiply_panel(const struct block *block, int64_t first_row, int64_t row_count,
                           const uint16_t *inputs, int64_t count, const struct matrix_sink *sink) {
    for (int64_t m = 0; m < count; m += TILE_INPUTS) {
        const uint16_t *tile[TILE_INPUTS];
        int64_t tile_count = count - m < TILE_INPUTS ? count - m : TILE_INPUTS;
        for (int64_t i = 0; i < TILE_INPUTS; i++) {
            tile[i] = inputs + (m + (i < tile_count ? i : tile_count - 1)) * block->stride;
        }
        for (int64_t first = 0; first < row_count; first += ROWS) {
            float groups[ROWS / ROW_GROUP][ROWS];
            int64_t rows = row_count - first < ROWS ? row_count - first : ROWS;
            for (int64_t group = 0; group < ROWS; group += ROW_GROUP) {
                multiply_tile(block, block->panel + (first + group) * block->stride, tile,
                              groups[group / ROW_GROUP]);
            }
            for (int64_t i = 0; i < tile_count; i++) {
                finish_rows(groups, i, m + i, first_row + first, rows, sink);
            }
        }
    }
}

/* Decodes the rows once; those that fill up the last sixteen are zeroed. */
static void fill_panel(const struct block *block, int64_t first_row, int64_t row_count) {
    int64_t padded = (row_count + ROWS - 1) / ROWS * ROWS;
    for (int64_t r = 0; r < padded; r++) {
        uint16_t *panel_row = block->panel + r * block->stride;
        if (r < row_count) {
            decode_row(block, first_row + r, panel_row);
        } else {
            memset(panel_row, 0, (size_t)block->stride * sizeof *panel_row);
        }
    }
}

static struct block make_block(const struct weight *weight, const struct leaf_plan *leaves, void *scratch) {
    struct block block = {.weight = weight, .leaves = leaves, .columns = weight->columns};
    block.stride = input_row_stride(weight->columns);
    block.panel = scratch;
    block.floats = (float *)(void *)((char *)scratch + panel_bytes(weight->columns));
    block.lowered = (uint16_t *)(block.floats + block.stride);
    block.scaled_inputs = block.lowered + ROW_GROUP * lowered_words(weight->columns);
    block.fp8 = fp8_table_load();
    block.fp8_plain = fp8_plain_table_load();
    block.fp4 = fp4_table_load();
    return block;
}

void matrix_block_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                           int64_t row_count, const void *inputs, int64_t count, void *scratch,
                           const struct matrix_sink *sink) {
    struct block block = make_block(weight, leaves, scratch);
    const uint16_t *streamed = inputs;
    bool streams = count >= 1 && count <= FEW_INPUTS;
    if (streams && weight->format == WEIGHT_FP8) {
        streams = scale_inputs(&block, first_row, first_row + row_count - 1, inputs, count);
        streamed = block.scaled_inputs;
    }
    for (int64_t first = 0; first < row_count; first += ROWS) {
        int64_t rows = row_count - first < ROWS ? row_count - first : ROWS;
        if (streams && multiply_streaming(&block, first_row + first, rows, streamed, count, sink)) {
            continue;
        }
        fill_panel(&block, first_row + first, rows);
        multiply_panel(&block, first_row + first, rows, inputs, count, sink);
    }
}

const uint16_t *matrix_block_decode(const struct weight *weight, int64_t first_row, int64_t row_count,
                                    void *scratch) {
    struct block block = make_block(weight, NULL, scratch);
    fill_panel(&block, first_row, row_count);
    return block.panel;
}
