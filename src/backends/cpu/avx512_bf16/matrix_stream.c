/* Tiles of two to eight rows by one input, four by up to four, or two by up to eight. */
#include "backends/cpu/avx512_bf16/matrix_stream.h"

enum {
    CACHE_LINE_BYTES = 64,
    SOME_ROWS = 4, /* rows of a tile of several inputs */
    SOME_ROWS_INPUTS = 4,
    FEW_ROWS = 2, /* rows of a tile of more inputs */
    FEW_ROWS_INPUTS = 8,
    TILE_BYTES_MAX = 8192, /* of one input's tile: memory is fastest where reading goes straight on */
    /*
     * How far ahead of a tile's rows weights are asked for: the tile itself, so that nothing of it is touched
     * out of turn, within what hides the memory's latency and what the L1 cache holds. The L2 cache, which
     * can wait for more lines at once, is asked for what lies so much farther.
     */
    AHEAD_BYTES_MIN = 8192,
    AHEAD_BYTES_MAX = 16384,
    FARTHER_BYTES = 12288,
};

/* One tile: its rows, each so far behind the one before, its inputs, and how far ahead to ask for weights. */
struct stream_tile {
    struct row_source first;
    int64_t code_pitch;    /* bytes; 0: the first row again and again */
    int64_t lowered_pitch; /* words */
    const uint16_t *inputs[FEW_ROWS_INPUTS];
    int64_t row_count;
    int64_t ahead_bytes;
};

/*
 * Asks for weights to come, as many bytes as the chunk at `column` of all the tile's rows has. The rows are
 * read side by side, but asked for one behind the other: one stream runs at the memory's full speed, several
 * short ones do not. Addresses past the weights do no harm.
 */
static inline __attribute__((always_inline)) void
prefetch_chunk(const struct stream_tile *tile, enum weight_format format, int row_count, int64_t column) {
    const char *ahead = (const char *)tile->first.codes + tile->ahead_bytes;
    ahead += row_count * code_bytes(format, column);
    for (int64_t i = 0; i < row_count * code_bytes(format, CHUNK); i += CACHE_LINE_BYTES) {
        _mm_prefetch(ahead + i, _MM_HINT_T0);
        _mm_prefetch(ahead + i + FARTHER_BYTES, _MM_HINT_T1);
    }
}

static inline __m512 dot_chunk(__m512 sum, struct bf16_chunk weights, const uint16_t *input) {
    __m512 part = _mm512_dpbf16_ps(sum, (__m512bh)weights.first, (__m512bh)_mm512_loadu_si512(input));
    return _mm512_dpbf16_ps(part, (__m512bh)weights.second, (__m512bh)_mm512_loadu_si512(input + 32));
}

/*
 * One chunk of a tile: lanes[input * row_count + row]. All rows are decoded before the inputs come: both stay
 * in registers.
 */
static inline __attribute__((always_inline)) void
stream_chunk(const struct weight_block *block, const struct stream_tile *tile, enum weight_format format,
             int row_count, int input_count, int64_t column, int64_t left, __m512 *lanes) {
    struct bf16_chunk chunks[STREAM_ROWS];
    prefetch_chunk(tile, format, row_count, column);
    for (int r = 0; r < row_count; r++) {
        struct row_source row = {tile->first.codes + r * tile->code_pitch,
                                 tile->first.lowered + r * tile->lowered_pitch};
        chunks[r] = decode_chunk_unscaled(block, format, &row, column, left);
    }
    for (int m = 0; m < input_count; m++) {
        for (int r = 0; r < row_count; r++) {
            lanes[m * row_count + r] =
                dot_chunk(lanes[m * row_count + r], chunks[r], tile->inputs[m] + column);
        }
    }
}

/* The results of a tile: out[input * row_count + row]. Compiled apart for each format and shape. */
static inline __attribute__((always_inline)) void run_tile(const struct weight_block *block,
                                                           const struct stream_tile *tile,
                                                           enum weight_format format, int row_count,
                                                           int input_count, float *out) {
    __m512 sums[LEAF_STACK_MAX];
    int depth = 0;
    int s = 0;
    do {
        const struct leaf_step *step = &block->leaves->steps[s];
        __m512 lanes[TILE_RESULTS];
        for (int i = 0; i < row_count * input_count; i++) {
            lanes[i] = _mm512_setzero_ps();
        }
        int64_t whole = step->end_column - step->end_column % CHUNK;
        for (int64_t column = step->first_column; column < whole; column += CHUNK) {
            stream_chunk(block, tile, format, row_count, input_count, column, CHUNK, lanes);
        }
        if (whole < step->end_column) {
            stream_chunk(block, tile, format, row_count, input_count, whole, step->end_column - whole, lanes);
        }
        depth = push_leaf(sums, depth, sum_lanes(lanes, row_count * input_count), step->merge_count);
    } while (++s < block->leaves->step_count);
    store_root(out, sums[0]);
}

/* One specialised loop per format and shape. */
#define RUN_SHAPES(format)                                                 \
    switch (input_count) {                                                 \
    case 1:                                                                \
        if (format != WEIGHT_PLAIN && tile->row_count == STREAM_ROWS) {    \
            run_tile(block, tile, format, STREAM_ROWS, 1, out);            \
        } else if (format == WEIGHT_FP4 || tile->row_count == SOME_ROWS) { \
            run_tile(block, tile, format, SOME_ROWS, 1, out);              \
        } else {                                                           \
            run_tile(block, tile, format, FEW_ROWS, 1, out);               \
        }                                                                  \
        break;                                                             \
    case 2:                                                                \
        run_tile(block, tile, format, SOME_ROWS, 2, out);                  \
        break;                                                             \
    case 3:                                                                \
        run_tile(block, tile, format, SOME_ROWS, 3, out);                  \
        break;                                                             \
    case 4:                                                                \
        run_tile(block, tile, format, SOME_ROWS, 4, out);                  \
        break;                                                             \
    default:                                                               \
        run_tile(block, tile, format, FEW_ROWS, FEW_ROWS_INPUTS, out);     \
        break;                                                             \
    }

static void run_fp8(const struct weight_block *block, const struct stream_tile *tile, int64_t input_count,
                    float *out) {
    RUN_SHAPES(WEIGHT_FP8)
}

static void run_fp4(const struct weight_block *block, const struct stream_tile *tile, int64_t input_count,
                    float *out) {
    RUN_SHAPES(WEIGHT_FP4)
}

static void run_plain(const struct weight_block *block, const struct stream_tile *tile, int64_t input_count,
                      float *out) {
    RUN_SHAPES(WEIGHT_PLAIN)
}

static int64_t ahead_bytes(const struct weight_block *block, int64_t row_count) {
    int64_t bytes = row_count * code_bytes(block->weight->format, block->columns);
    bytes = bytes < AHEAD_BYTES_MIN ? AHEAD_BYTES_MIN : bytes;
    return bytes > AHEAD_BYTES_MAX ? AHEAD_BYTES_MAX : bytes;
}

/*
 * The shape that has enough sums under way to hide the latency of one, and no more than registers hold. With
 * one input plain weights need fewer, as they bring half as many columns a byte, and FP4 codes more.
 */
static int64_t rows_of_tile(const struct weight_block *block, int64_t input_count) {
    enum weight_format format = block->weight->format;
    if (input_count > 1) {
        return input_count <= SOME_ROWS_INPUTS ? SOME_ROWS : FEW_ROWS;
    }
    int64_t rows = format == WEIGHT_PLAIN ? SOME_ROWS : STREAM_ROWS;
    int64_t fewest = format == WEIGHT_FP4 ? SOME_ROWS : FEW_ROWS;
    while (rows > fewest && code_bytes(format, rows * block->columns) > TILE_BYTES_MAX) {
        rows /= 2;
    }
    return rows;
}

static void run_tile_of(const struct weight_block *block, const struct stream_tile *tile, int64_t input_count,
                        float *out) {
    if (block->weight->format == WEIGHT_FP8) {
        run_fp8(block, tile, input_count, out);
    } else if (block->weight->format == WEIGHT_FP4) {
        run_fp4(block, tile, input_count, out);
    } else {
        run_plain(block, tile, input_count, out);
    }
}

/* The same of fewer rows than a tile has: row by row, each repeated, so that nothing behind them is read. */
static void run_part_tile(const struct weight_block *block, struct stream_tile tile, int64_t row_count,
                          int64_t input_count, float *out) {
    struct row_source first = tile.first;
    int64_t code_pitch = tile.code_pitch;
    int64_t lowered_pitch = tile.lowered_pitch;
    float repeated[TILE_RESULTS];
    tile.code_pitch = 0;
    tile.lowered_pitch = 0;
    for (int64_t r = 0; r < row_count; r++) {
        tile.first = (struct row_source){first.codes + r * code_pitch, first.lowered + r * lowered_pitch};
        run_tile_of(block, &tile, input_count, repeated);
        for (int64_t m = 0; m < input_count; m++) {
            out[m * tile.row_count + r] = repeated[m * tile.row_count];
        }
    }
}

/* All rows with the inputs of one tile, of which the first is input `first_input`. */
static void stream_inputs(const struct weight_block *block, int64_t first_row, int64_t row_count,
                          const uint16_t *inputs, int64_t first_input, int64_t count,
                          const struct matrix_sink *sink) {
    float groups[ROWS / FEW_ROWS][TILE_RESULTS];
    int64_t tile_rows = rows_of_tile(block, count);
    struct stream_tile tile = {.code_pitch = code_bytes(block->weight->format, block->columns),
                               .lowered_pitch = scale_count(block),
                               .row_count = tile_rows};
    for (int64_t m = 0; m < FEW_ROWS_INPUTS; m++) {
        tile.inputs[m] = inputs + (first_input + (m < count ? m : count - 1)) * block->stride;
    }
    /* Later tiles find the weights in the cache. */
    tile.ahead_bytes = first_input == 0 ? ahead_bytes(block, tile_rows) : 0;
    for (int64_t row = 0; row < row_count; row += tile_rows) {
        float *out = groups[row / tile_rows];
        tile.first = source_of(block, first_row + row, block->lowered + row * tile.lowered_pitch);
        if (row_count - row >= tile_rows) {
            run_tile_of(block, &tile, count, out);
        } else {
            run_part_tile(block, tile, row_count - row, count, out);
        }
    }
    for (int64_t m = 0; m < count; m++) {
        take_rows(groups, tile_rows, m, first_input + m, first_row, row_count, sink);
    }
}

bool matrix_stream_multiply(const struct weight_block *block, int64_t first_row, int64_t row_count,
                            const uint16_t *inputs, int64_t count, const struct matrix_sink *sink) {
    if (block->weight->format == WEIGHT_FP4 && !prepare_scales(block, first_row, row_count, block->lowered)) {
        return false;
    }
    for (int64_t m = 0; m < count; m += FEW_ROWS_INPUTS) {
        int64_t tile_count = count - m < FEW_ROWS_INPUTS ? count - m : FEW_ROWS_INPUTS;
        stream_inputs(block, first_row, row_count, inputs, m, tile_count, sink);
    }
    return true;
}

/* bf16 words and how their exponents move with a scale; adds lanes that leave the normal numbers to
 * `outside`. */
static inline __m512i scale_words(__m512i words, __m512i raised, __mmask32 *outside) {
    const __m512i exponents = _mm512_set1_epi16(0x7F80);
    const __m512i smallest = _mm512_set1_epi16(0x0080);
    const __m512i range = _mm512_set1_epi16(0x7E80); /* from the smallest exponent to the largest */
    __m512i exponent = _mm512_and_si512(words, exponents);
    __mmask32 is_normal = _mm512_test_epi16_mask(words, exponents);
    __m512i moved = _mm512_sub_epi16(_mm512_add_epi16(exponent, raised), smallest);
    *outside |=
        _mm512_mask_cmpgt_epu16_mask(is_normal, moved, range) | _mm512_cmpeq_epi16_mask(exponent, exponents);
    return _mm512_mask_add_epi16(words, is_normal, words, raised);
}

bool matrix_stream_scale(const struct weight_block *block, int64_t first_row, int64_t last_row,
                         const uint16_t *inputs, int64_t count) {
    enum { SCALE_SMALLEST = 64, SCALE_ONE = 127, SCALE_LARGEST = 190 };
    int64_t blocks = (block->columns + WEIGHT_FP8_BLOCK - 1) / WEIGHT_FP8_BLOCK;
    const uint8_t *scales = (const uint8_t *)block->weight->scales + first_row / WEIGHT_FP8_BLOCK * blocks;
    __mmask32 outside = 0;
    if (first_row / WEIGHT_FP8_BLOCK != last_row / WEIGHT_FP8_BLOCK) {
        return false;
    }
    for (int64_t first = 0; first < block->stride; first += WEIGHT_FP8_BLOCK) {
        int byte = scales[first / WEIGHT_FP8_BLOCK];
        int64_t end = first + WEIGHT_FP8_BLOCK < block->stride ? first + WEIGHT_FP8_BLOCK : block->stride;
        if (byte < SCALE_SMALLEST || byte > SCALE_LARGEST) {
            return false;
        }
        __m512i raised = _mm512_set1_epi16((short)((byte - SCALE_ONE) * (1 << BF16_EXPONENT_SHIFT)));
        for (int64_t m = 0; m < count; m++) {
            for (int64_t i = m * block->stride + first; i < m * block->stride + end; i += 32) {
                __m512i words = _mm512_loadu_si512(inputs + i);
                _mm512_storeu_si512(block->scaled_inputs + i, scale_words(words, raised, &outside));
            }
        }
    }
    return outside == 0;
}
