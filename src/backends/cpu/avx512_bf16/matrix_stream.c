/* Tiles of two to eight rows by one input, or of four rows by two to four inputs. */
#include "backends/cpu/avx512_bf16/matrix_stream.h"

enum {
    CACHE_LINE_BYTES = 64,
    FEW_ROWS = 2,          /* rows of a tile at least */
    SOME_ROWS = 4,         /* rows of a tile of several inputs */
    TILE_INPUTS = 4,       /* inputs of a tile at most */
    TILE_BYTES_MAX = 8192, /* of one input's tile: memory is fastest where reading goes straight on */
    RUN_BYTES_MAX =
        16384, /* of tiles that several tiles of inputs meet one after the other: in the L1 cache */
    /*
     * How far ahead of a tile's rows weights are asked for: the tile itself, so that nothing of it is touched
     * out of turn, within what hides the memory's latency and what the L1 cache holds. The L2 cache, which
     * can wait for more lines at once, is asked for what lies so much farther.
     */
    AHEAD_BYTES_MIN = 8192,
    AHEAD_BYTES_MAX = 16384,
    FARTHER_BYTES = 12288,
};

/* Tiles that lie side by side: their rows, each so far behind the one before, and their inputs. */
struct stream_run {
    struct row_source first;
    int64_t code_pitch;    /* bytes; 0: the first row again and again */
    int64_t lowered_pitch; /* words */
    const uint16_t *inputs[TILE_INPUTS];
    int64_t tile_rows;
    int64_t tile_count;
    int64_t ahead_bytes; /* how far ahead to ask for weights; 0: they are in the cache */
};

/*
 * Asks for weights to come, as many bytes as the chunk at `column` of all the tile's rows has. The rows are
 * read side by side, but asked for one behind the other: one stream runs at the memory's full speed, several
 * short ones do not. Addresses past the weights do no harm.
 */
static inline __attribute__((always_inline)) void
prefetch_chunk(const uint8_t *ahead, enum weight_format format, int row_count, int64_t column) {
    const char *from = (const char *)ahead + row_count * code_bytes(format, column);
#pragma GCC unroll 16
    for (int64_t i = 0; i < row_count * code_bytes(format, CHUNK); i += CACHE_LINE_BYTES) {
        _mm_prefetch(from + i, _MM_HINT_T0);
        _mm_prefetch(from + i + FARTHER_BYTES, _MM_HINT_T1);
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
stream_chunk(const struct weight_block *block, const struct stream_run *run, const struct row_source *first,
             enum weight_format format, int row_count, int input_count, int64_t column, int64_t left,
             __m512 *lanes) {
    struct bf16_chunk chunks[STREAM_ROWS];
    prefetch_chunk(first->codes + run->ahead_bytes, format, row_count, column);
#pragma GCC unroll 8
    for (int r = 0; r < row_count; r++) {
        struct row_source row = {first->codes + r * run->code_pitch, first->lowered + r * run->lowered_pitch};
        chunks[r] = decode_chunk_unscaled(block, format, &row, column, left);
    }
#pragma GCC unroll 4
    for (int m = 0; m < input_count; m++) {
#pragma GCC unroll 8
        for (int r = 0; r < row_count; r++) {
            lanes[m * row_count + r] =
                dot_chunk(lanes[m * row_count + r], chunks[r], run->inputs[m] + column);
        }
    }
}

/* The sums of one leaf of a tile: lane input * row_count + row. */
static inline __attribute__((always_inline)) __m512
stream_leaf(const struct weight_block *block, const struct stream_run *run, const struct row_source *first,
            enum weight_format format, int row_count, int input_count, const struct leaf_step *step) {
    __m512 lanes[TILE_RESULTS];
#pragma GCC unroll 16
    for (int i = 0; i < row_count * input_count; i++) {
        lanes[i] = _mm512_setzero_ps();
    }
    int64_t whole = step->end_column - step->end_column % CHUNK;
    for (int64_t column = step->first_column; column < whole; column += CHUNK) {
        stream_chunk(block, run, first, format, row_count, input_count, column, CHUNK, lanes);
    }
    if (whole < step->end_column) {
        stream_chunk(block, run, first, format, row_count, input_count, whole, step->end_column - whole,
                     lanes);
    }
    return sum_lanes(lanes, row_count * input_count);
}

/* The sums of a tile. Those of one leaf apart, as is usual: a stack of sums is memory. */
static inline __attribute__((always_inline)) __m512
stream_tile(const struct weight_block *block, const struct stream_run *run, const struct row_source *first,
            enum weight_format format, int row_count, int input_count) {
    const struct leaf_plan *leaves = block->leaves;
    if (leaves->step_count == 1) {
        return stream_leaf(block, run, first, format, row_count, input_count, leaves->steps);
    }
    __m512 sums[LEAF_STACK_MAX];
    int depth = 0;
    for (int s = 0; s < leaves->step_count; s++) {
        const struct leaf_step *step = &leaves->steps[s];
        __m512 leaf = stream_leaf(block, run, first, format, row_count, input_count, step);
        depth = push_leaf(sums, depth, leaf, step->merge_count);
    }
    return sums[0];
}

/* The results of tiles: out[tile][input * row_count + row]. Compiled apart for each format and shape. */
static inline __attribute__((always_inline)) void run_tiles(const struct weight_block *block,
                                                            const struct stream_run *run,
                                                            enum weight_format format, int row_count,
                                                            int input_count, float (*out)[TILE_RESULTS]) {
    struct row_source first = run->first;
    for (int64_t t = 0; t < run->tile_count; t++) {
        store_root(out[t], stream_tile(block, run, &first, format, row_count, input_count));
        first.codes += row_count * run->code_pitch;
        first.lowered += row_count * run->lowered_pitch;
    }
}

/* One specialised loop per format and shape. */
#define RUN_SHAPES(format)                                                \
    switch (input_count) {                                                \
    case 1:                                                               \
        if (format != WEIGHT_PLAIN && run->tile_rows == STREAM_ROWS) {    \
            run_tiles(block, run, format, STREAM_ROWS, 1, out);           \
        } else if (format == WEIGHT_FP4 || run->tile_rows == SOME_ROWS) { \
            run_tiles(block, run, format, SOME_ROWS, 1, out);             \
        } else {                                                          \
            run_tiles(block, run, format, FEW_ROWS, 1, out);              \
        }                                                                 \
        break;                                                            \
    case 2:                                                               \
        run_tiles(block, run, format, SOME_ROWS, 2, out);                 \
        break;                                                            \
    case 3:                                                               \
        run_tiles(block, run, format, SOME_ROWS, 3, out);                 \
        break;                                                            \
    default:                                                              \
        run_tiles(block, run, format, SOME_ROWS, TILE_INPUTS, out);       \
        break;                                                            \
    }

static void run_fp8(const struct weight_block *block, const struct stream_run *run, int64_t input_count,
                    float (*out)[TILE_RESULTS]) {
    RUN_SHAPES(WEIGHT_FP8)
}

static void run_fp4(const struct weight_block *block, const struct stream_run *run, int64_t input_count,
                    float (*out)[TILE_RESULTS]) {
    RUN_SHAPES(WEIGHT_FP4)
}

static void run_plain(const struct weight_block *block, const struct stream_run *run, int64_t input_count,
                      float (*out)[TILE_RESULTS]) {
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
        return SOME_ROWS;
    }
    int64_t rows = format == WEIGHT_PLAIN ? SOME_ROWS : STREAM_ROWS;
    int64_t fewest = format == WEIGHT_FP4 ? SOME_ROWS : FEW_ROWS;
    while (rows > fewest && code_bytes(format, rows * block->columns) > TILE_BYTES_MAX) {
        rows /= 2;
    }
    return rows;
}

static void run_tiles_of(const struct weight_block *block, const struct stream_run *run, int64_t input_count,
                         float (*out)[TILE_RESULTS]) {
    if (block->weight->format == WEIGHT_FP8) {
        run_fp8(block, run, input_count, out);
    } else if (block->weight->format == WEIGHT_FP4) {
        run_fp4(block, run, input_count, out);
    } else {
        run_plain(block, run, input_count, out);
    }
}

/* The same of fewer rows than a tile has: row by row, each repeated, so that nothing behind them is read. */
static void run_part_tile(const struct weight_block *block, struct stream_run run, int64_t row_count,
                          int64_t input_count, float *out) {
    struct row_source first = run.first;
    int64_t code_pitch = run.code_pitch;
    int64_t lowered_pitch = run.lowered_pitch;
    float repeated[1][TILE_RESULTS];
    run.code_pitch = 0;
    run.lowered_pitch = 0;
    run.tile_count = 1;
    for (int64_t r = 0; r < row_count; r++) {
        run.first = (struct row_source){first.codes + r * code_pitch, first.lowered + r * lowered_pitch};
        run_tiles_of(block, &run, input_count, repeated);
        for (int64_t m = 0; m < input_count; m++) {
            out[m * run.tile_rows + r] = repeated[0][m * run.tile_rows];
        }
    }
}

/* Results of one tile of inputs: groups[row / tile rows]. */
typedef float stream_groups[MATRIX_BLOCK_ROWS / FEW_ROWS][TILE_RESULTS];

/* Some rows with one tile of inputs. `row`: within the rows of the groups. */
static void stream_rows(const struct weight_block *block, struct stream_run *run, int64_t row,
                        int64_t row_count, int64_t input_count, stream_groups groups) {
    run->tile_count = row_count / run->tile_rows;
    float(*out)[TILE_RESULTS] = groups + row / run->tile_rows;
    run_tiles_of(block, run, input_count, out);
    int64_t done = run->tile_count * run->tile_rows;
    if (done < row_count) {
        struct stream_run rest = *run;
        rest.first.codes += done * run->code_pitch;
        rest.first.lowered += done * run->lowered_pitch;
        run_part_tile(block, rest, row_count - done, input_count, out[run->tile_count]);
    }
}

/* Rows that meet all tiles of inputs before the next rows come. */
static int64_t rows_of_run(const struct weight_block *block, int64_t input_count) {
    int64_t rows = MATRIX_BLOCK_ROWS;
    while (input_count > TILE_INPUTS && rows > SOME_ROWS &&
           code_bytes(block->weight->format, rows * block->columns) > RUN_BYTES_MAX) {
        rows /= 2;
    }
    return rows;
}

bool matrix_stream_multiply(const struct weight_block *block, int64_t first_row, int64_t row_count,
                            const uint16_t *inputs, int64_t count, const struct matrix_sink *sink) {
    stream_groups groups[STREAM_INPUTS / TILE_INPUTS];
    struct stream_run run = {.code_pitch = code_bytes(block->weight->format, block->columns),
                             .lowered_pitch = scale_count(block)};
    if (block->weight->format == WEIGHT_FP4 && !prepare_scales(block, first_row, row_count, block->lowered)) {
        return false;
    }
    int64_t run_rows = rows_of_run(block, count);
    for (int64_t row = 0; row < row_count; row += run_rows) {
        int64_t rows = row_count - row < run_rows ? row_count - row : run_rows;
        run.first = source_of(block, first_row + row, block->lowered + row * run.lowered_pitch);
        for (int64_t m = 0; m < count; m += TILE_INPUTS) {
            int64_t tile_inputs = count - m < TILE_INPUTS ? count - m : TILE_INPUTS;
            run.tile_rows = rows_of_tile(block, tile_inputs);
            run.ahead_bytes = m == 0 ? ahead_bytes(block, run.tile_rows) : 0;
            for (int64_t i = 0; i < TILE_INPUTS; i++) {
                run.inputs[i] = inputs + (m + (i < tile_inputs ? i : tile_inputs - 1)) * block->stride;
            }
            stream_rows(block, &run, row, rows, tile_inputs, groups[m / TILE_INPUTS]);
        }
    }
    for (int64_t m = 0; m < count; m++) {
        int64_t first_input = m - m % TILE_INPUTS;
        int64_t tile_inputs = count - first_input < TILE_INPUTS ? count - first_input : TILE_INPUTS;
        int64_t tile_rows = rows_of_tile(block, tile_inputs);
        for (int64_t row = 0; row < row_count; row += ROWS) {
            int64_t rows = row_count - row < ROWS ? row_count - row : ROWS;
            take_rows(groups[m / TILE_INPUTS] + row / tile_rows, tile_rows, m - first_input, m,
                      first_row + row, rows, sink);
        }
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
