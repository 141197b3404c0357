/*
 * Residual streams: the collapse before a sublayer or the head.
 *
 * The products with the mix matrix are the work. Their sum over columns runs lane-wise inside chunks of
 * CHUNK_COLUMNS, then over the chunks in order, then over the lanes by the tree. Few tokens share out the
 * chunks; many are taken in blocks, so that the matrix is read once per block. The order is the same.
 */
#include <math.h>

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/norm_math_lanes.h"
#include "ops/hyper_connection_head.h"
#include "ops/hyper_connection_pre.h"
#include "ops/kernel_items.h"
#include "ops/row_index.h"

enum { STREAMS_MAX = HYPER_CONNECTION_STREAMS_MAX, MIXES_MAX = (2 + STREAMS_MAX) * STREAMS_MAX };
enum { CHUNK_COLUMNS = 512, FEW_TOKENS = 8, BLOCK_TOKENS = 32 };

/* A tile's sums stay in registers, of which AVX-512 has twice as many. */
#ifdef __AVX512F__
enum { TILE_TOKENS = 4, TILE_ROWS = 6 };
#else
enum { TILE_TOKENS = 2, TILE_ROWS = 4 };
#endif

/* What pre and head have in common. */
struct collapse_args {
    struct tensor streams; /* (any, count, width) */
    const int32_t *rows;   /* of streams, one per row of out; NULL: the same row */
    struct tensor out;     /* (rows, width) */
    const struct weight *mix;
    const struct weight *base;
    const struct weight *scale;
    float gate_epsilon;
    float norm_epsilon;
    const struct hyper_connection_pre_args *pre; /* NULL in the head */
    float *chunk_sums;                           /* few tokens: (chunks, rows, mixes + 1) vectors */
    int64_t block_tokens;
};

/* Sums of one token: a vector per mix row, then one for the squares of the streams. */
static int64_t sums_stride(const struct weight *mix) {
    return (mix->rows + 1) * LANES;
}

/* Some columns of some tokens and mix rows: sums (tokens, sums_stride) are added to. */
struct mix_part {
    const char *streams; /* of input row 0 */
    size_t token_bytes;
    const int32_t *rows;
    int64_t first; /* token */
    const float *mix;
    int64_t columns; /* a mix row's */
    int64_t length;  /* columns of this part */
    float *sums;
    int64_t sums_stride;
};

/* The columns of the part's token `token`. */
LANES_INLINE const char *part_streams(const struct mix_part *part, int64_t token) {
    return part->streams + (size_t)row_index(part->rows, part->first + token) * part->token_bytes;
}

LANES_INLINE void add_tile_columns(enum dtype dtype, int tokens, int rows, const struct mix_part *part,
                                   const char *const streams[TILE_TOKENS], int64_t first, int64_t left,
                                   f32_piece sums[TILE_TOKENS][TILE_ROWS]) {
    f32_piece x[TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        x[t] = piece_read(dtype, streams[t], first, left);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        f32_piece mix = piece_read(DTYPE_F32, part->mix + r * part->columns, first, left);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; t++) {
            sums[t][r] += mix * x[t];
        }
    }
}

/* The lanes of one piece from `lane`. */
LANES_INLINE void add_tile_piece(enum dtype dtype, int tokens, int rows, const struct mix_part *part,
                                 const char *const streams[TILE_TOKENS], int64_t lane) {
    f32_piece sums[TILE_TOKENS][TILE_ROWS] = {0};
    int64_t i = lane;
    for (; i + PIECE_LANES <= part->length; i += LANES) {
        add_tile_columns(dtype, tokens, rows, part, streams, i, PIECE_LANES, sums);
    }
    if (i < part->length) {
        add_tile_columns(dtype, tokens, rows, part, streams, i, part->length - i, sums);
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            float *to = part->sums + t * part->sums_stride + r * LANES + lane;
            f32_piece sum;
            memcpy(&sum, to, sizeof sum);
            sum += sums[t][r];
            memcpy(to, &sum, sizeof sum);
        }
    }
}

LANES_INLINE void add_tile(enum dtype dtype, int tokens, int rows, const struct mix_part *part) {
    const char *streams[TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        streams[t] = part_streams(part, t);
    }
    for (int64_t lane = 0; lane < LANES; lane += PIECE_LANES) {
        add_tile_piece(dtype, tokens, rows, part, streams, lane);
    }
}

/* A strip of `rows` mix rows for `count` tokens. */
LANES_INLINE void add_strip(enum dtype dtype, int rows, struct mix_part part, int64_t count) {
    for (; count >= TILE_TOKENS; count -= TILE_TOKENS) {
        add_tile(dtype, TILE_TOKENS, rows, &part);
        part.first += TILE_TOKENS;
        part.sums += TILE_TOKENS * part.sums_stride;
    }
    /* The rest in one tile: it would read the mix rows again for each token. */
    if (count == 3 && TILE_TOKENS > 3) {
        add_tile(dtype, 3, rows, &part);
    } else if (count == 2 && TILE_TOKENS > 2) {
        add_tile(dtype, 2, rows, &part);
    } else if (count == 1) {
        add_tile(dtype, 1, rows, &part);
    }
}

LANES_INLINE void add_squares(enum dtype dtype, const struct mix_part *part, int64_t count,
                              int64_t mix_rows) {
    for (int64_t t = 0; t < count; t++) {
        const char *streams = part_streams(part, t);
        float *sum = part->sums + t * part->sums_stride + mix_rows * LANES;
        lanes_store(sum, lanes_load(sum) + lanes_squares(dtype, streams, 0, part->length));
    }
}

/* Adds one chunk of columns to the sums of `count` tokens. */
LANES_INLINE void add_chunk_typed(enum dtype dtype, struct mix_part part, int64_t count, int64_t mix_rows) {
    add_squares(dtype, &part, count, mix_rows);
    int64_t row = 0;
    for (; row + TILE_ROWS <= mix_rows; row += TILE_ROWS) {
        add_strip(dtype, TILE_ROWS, part, count);
        part.mix += TILE_ROWS * part.columns;
        part.sums += TILE_ROWS * LANES;
    }
    for (; row < mix_rows; row++) {
        add_strip(dtype, 1, part, count);
        part.mix += part.columns;
        part.sums += LANES;
    }
}

/* The same by index of the chunk; `sums` belongs to token `first`. */
static void add_chunk(const struct collapse_args *args, int64_t first, int64_t count, int64_t chunk,
                      float *sums) {
    int64_t columns = args->mix->columns;
    int64_t start = chunk * CHUNK_COLUMNS;
    size_t element = dtype_bytes(args->streams.dtype);
    struct mix_part part = {
        .streams = (const char *)args->streams.data + (size_t)start * element,
        .token_bytes = (size_t)columns * element,
        .rows = args->rows,
        .first = first,
        .mix = (const float *)args->mix->data + start,
        .columns = columns,
        .length = columns - start < CHUNK_COLUMNS ? columns - start : CHUNK_COLUMNS,
        .sums = sums,
        .sums_stride = sums_stride(args->mix),
    };
    if (args->streams.dtype == DTYPE_F32) {
        add_chunk_typed(DTYPE_F32, part, count, args->mix->rows);
    } else {
        add_chunk_typed(DTYPE_BF16, part, count, args->mix->rows);
    }
}

static int64_t chunk_count(const struct weight *mix) {
    return (mix->columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS;
}

/*
 * mixes[i] = (mix row i . streams) / rms(streams) of up to sixteen tokens, a lane each: (mix rows + 1,
 * LANES). Lanes without a token hold anything.
 */
static void finish_mixes(const struct collapse_args *args, const float *sums, int64_t count, float *mixes) {
    int64_t mix_rows = args->mix->rows;
    f32x16 by_token[LANES] = {0};
    for (int64_t i = 0; i <= mix_rows; i++) {
        for (int64_t t = 0; t < count; t++) {
            by_token[t] = lanes_load(sums + t * sums_stride(args->mix) + i * LANES);
        }
        lanes_store(mixes + i * LANES, lanes_sum_each(by_token));
    }
    float *factors = mixes + mix_rows * LANES;
    for (int64_t t = 0; t < count; t++) {
        factors[t] = 1.0f / sqrtf(factors[t] / (float)args->mix->columns + args->norm_epsilon);
    }
    for (int64_t i = 0; i < mix_rows; i++) {
        lanes_store(mixes + i * LANES, lanes_load(mixes + i * LANES) * lanes_load(factors));
    }
}

/* Divides each row (or column) of a square matrix by its sum plus epsilon. */
static void normalise(f32_piece *matrix, int64_t count, float epsilon, bool by_column) {
    int64_t step = by_column ? count : 1;
    int64_t line_step = by_column ? 1 : count;
    for (int64_t line = 0; line < count; line++) {
        f32_piece *first = matrix + line * line_step;
        f32_piece sum = first[0];
        for (int64_t i = 1; i < count; i++) {
            sum += first[i * step];
        }
        f32_piece factor = 1.0f / (sum + epsilon);
        for (int64_t i = 0; i < count; i++) {
            first[i * step] *= factor;
        }
    }
}

/* Row softmax, then alternating normalisation that ends on the columns. */
static void sinkhorn(f32_piece *matrix, int64_t count, int iterations, float epsilon) {
    for (int64_t row = 0; row < count; row++) {
        f32_piece *line = matrix + row * count;
        f32_piece largest = line[0];
        f32_piece sum = {0};
        for (int64_t i = 1; i < count; i++) {
            largest = piece_max(largest, line[i]);
        }
        for (int64_t i = 0; i < count; i++) {
            line[i] = piece_exp(line[i] - largest);
            sum += line[i];
        }
        for (int64_t i = 0; i < count; i++) {
            line[i] = line[i] / sum + epsilon;
        }
    }
    normalise(matrix, count, epsilon, true);
    for (int i = 1; i < iterations; i++) {
        normalise(matrix, count, epsilon, false);
        normalise(matrix, count, epsilon, true);
    }
}

/* Writes values with a token a lane as F32 rows (tokens, width): out[token * width]. */
static void write_by_token(float *out, int64_t tokens, int64_t width, f32_piece values) {
    for (int64_t t = 0; t < tokens; t++) {
        out[t * width] = values[t];
    }
}

/* What the write-back needs of up to PIECE_LANES tokens from `first`, whose mixes lie LANES apart. */
static void write_mixing(const struct collapse_args *args, int64_t first, int64_t tokens, const float *base,
                         const float *scale, const float *mixes) {
    int64_t count = args->streams.shape[1];
    int64_t square = count * count;
    float *post = (float *)args->pre->post.data + first * count;
    float *comb = (float *)args->pre->comb.data + first * square;
    f32_piece matrix[STREAMS_MAX * STREAMS_MAX];
    for (int64_t j = count; j < 2 * count; j++) {
        f32_piece mix = piece_read(DTYPE_F32, mixes, j * LANES, PIECE_LANES);
        write_by_token(post + j - count, tokens, count, 2.0f * piece_sigmoid(mix * scale[1] + base[j]));
    }
    for (int64_t i = 0; i < square; i++) {
        f32_piece mix = piece_read(DTYPE_F32, mixes, (2 * count + i) * LANES, PIECE_LANES);
        matrix[i] = mix * scale[2] + base[2 * count + i];
    }
    sinkhorn(matrix, count, args->pre->sinkhorn_iterations, args->gate_epsilon);
    for (int64_t i = 0; i < square; i++) {
        write_by_token(comb + i, tokens, square, matrix[i]);
    }
}

/* out = sum_j gates[j] * streams[j] of one token; gates are LANES apart. */
LANES_INLINE void collapse_token(enum dtype dtype, const struct collapse_args *args, int64_t token,
                                 const float *gates) {
    int64_t count = args->streams.shape[1];
    int64_t width = args->streams.shape[2];
    int64_t source = row_index(args->rows, token) * count;
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece sum = {0};
        for (int64_t j = 0; j < count; j++) {
            int64_t at = (source + j) * width + i;
            sum += gates[j * LANES] * piece_read(dtype, args->streams.data, at, width - i);
        }
        piece_write(dtype, args->out.data, token * width + i, width - i, sum);
    }
}

/* All that follows the sums, for up to sixteen tokens. */
static void finish_tokens(const struct collapse_args *args, int64_t first, int64_t tokens,
                          const float *sums) {
    int64_t count = args->streams.shape[1];
    float mixes[(MIXES_MAX + 1) * LANES];
    float base[MIXES_MAX];
    float scale[3];
    finish_mixes(args, sums, tokens, mixes);
    weight_decode_row(args->base, 0, base);
    weight_decode_row(args->scale, 0, scale);
    for (int64_t lane = 0; lane < tokens && args->pre != NULL; lane += PIECE_LANES) {
        int64_t left = tokens - lane < PIECE_LANES ? tokens - lane : PIECE_LANES;
        write_mixing(args, first + lane, left, base, scale, mixes + lane);
    }
    /* The mixes of the gates become gates. */
    for (int64_t i = 0; i < count * LANES; i += PIECE_LANES) {
        f32_piece mix = piece_read(DTYPE_F32, mixes, i, PIECE_LANES);
        f32_piece gate = piece_sigmoid(mix * scale[0] + base[i / LANES]) + args->gate_epsilon;
        piece_write(DTYPE_F32, mixes, i, PIECE_LANES, gate);
    }
    for (int64_t t = 0; t < tokens; t++) {
        if (args->streams.dtype == DTYPE_F32) {
            collapse_token(DTYPE_F32, args, first + t, mixes + t);
        } else {
            collapse_token(DTYPE_BF16, args, first + t, mixes + t);
        }
    }
}

static void finish_block(const struct collapse_args *args, int64_t first, int64_t count, const float *sums) {
    for (int64_t t = 0; t < count; t += LANES) {
        finish_tokens(args, first + t, count - t < LANES ? count - t : LANES,
                      sums + t * sums_stride(args->mix));
    }
}

static void sum_chunk(const void *context, int64_t chunk, void *workspace) {
    (void)workspace;
    const struct collapse_args *args = context;
    int64_t rows = args->out.shape[0];
    int64_t stride = rows * sums_stride(args->mix);
    float *sums = args->chunk_sums + chunk * stride;
    memset(sums, 0, (size_t)stride * sizeof *sums);
    add_chunk(args, 0, rows, chunk, sums);
}

/* Few tokens: the chunks are shared out, and added up afterwards. */
static void collapse_few(const struct kernel_env *env, struct collapse_args *args) {
    int64_t rows = args->out.shape[0];
    int64_t stride = rows * sums_stride(args->mix);
    args->chunk_sums = (float *)env->workspace + stride;
    kernel_for_each_item(env, chunk_count(args->mix), sum_chunk, args, NULL, 0);
    float *totals = env->workspace;
    for (int64_t i = 0; i < stride; i += LANES) {
        f32x16 total = {0};
        for (int64_t chunk = 0; chunk < chunk_count(args->mix); chunk++) {
            total += lanes_load(args->chunk_sums + chunk * stride + i);
        }
        lanes_store(totals + i, total);
    }
    finish_block(args, 0, rows, totals);
}

static void collapse_block(const void *context, int64_t block, void *workspace) {
    const struct collapse_args *args = context;
    int64_t first = block * args->block_tokens;
    int64_t left = args->out.shape[0] - first;
    int64_t count = left < args->block_tokens ? left : args->block_tokens;
    float *sums = workspace;
    memset(sums, 0, (size_t)(count * sums_stride(args->mix)) * sizeof *sums);
    for (int64_t chunk = 0; chunk < chunk_count(args->mix); chunk++) {
        add_chunk(args, first, count, chunk, sums);
    }
    finish_block(args, first, count, sums);
}

static void collapse_many(const struct kernel_env *env, struct collapse_args *args) {
    int64_t rows = args->out.shape[0];
    int64_t threads = env->pool == NULL ? 1 : worker_pool_thread_count(env->pool);
    int64_t share = (rows + threads - 1) / threads;
    args->block_tokens = share < BLOCK_TOKENS ? share : BLOCK_TOKENS;
    kernel_for_each_item(env, (rows + args->block_tokens - 1) / args->block_tokens, collapse_block, args,
                         env->workspace, (size_t)(BLOCK_TOKENS * sums_stride(args->mix)) * sizeof(float));
}

static void collapse(const struct kernel_env *env, struct collapse_args args) {
    int64_t rows = args.out.shape[0];
    if (rows == 0) {
        return;
    }
    if (rows <= FEW_TOKENS) {
        collapse_few(env, &args);
    } else {
        collapse_many(env, &args);
    }
}

/* Never less for more rows: the plan is made for the largest step. */
static size_t collapse_workspace(const struct weight *mix, int64_t rows, unsigned thread_count) {
    int64_t few_rows = rows < FEW_TOKENS ? rows : FEW_TOKENS;
    int64_t few = few_rows * (chunk_count(mix) + 1);
    int64_t many = rows > FEW_TOKENS ? (int64_t)thread_count * BLOCK_TOKENS : 0;
    return (size_t)((few > many ? few : many) * sums_stride(mix)) * sizeof(float);
}

static bool can_run_pre(const void *arguments) {
    const struct hyper_connection_pre_args *args = arguments;
    return args->mix->dtype == DTYPE_F32;
}

static size_t pre_workspace(const void *arguments, unsigned thread_count) {
    const struct hyper_connection_pre_args *args = arguments;
    return collapse_workspace(args->mix, args->out.shape[0], thread_count);
}

static enum status run_pre(const struct kernel_env *env, const void *arguments) {
    const struct hyper_connection_pre_args *args = arguments;
    collapse(env, (struct collapse_args){.streams = args->streams,
                                         .out = args->out,
                                         .mix = args->mix,
                                         .base = args->base,
                                         .scale = args->scale,
                                         .gate_epsilon = args->gate_epsilon,
                                         .norm_epsilon = args->norm_epsilon,
                                         .pre = args});
    return STATUS_OK;
}

static bool can_run_head(const void *arguments) {
    const struct hyper_connection_head_args *args = arguments;
    return args->mix->dtype == DTYPE_F32;
}

static size_t head_workspace(const void *arguments, unsigned thread_count) {
    const struct hyper_connection_head_args *args = arguments;
    return collapse_workspace(args->mix, args->out.shape[0], thread_count);
}

static enum status run_head(const struct kernel_env *env, const void *arguments) {
    const struct hyper_connection_head_args *args = arguments;
    collapse(env, (struct collapse_args){.streams = args->streams,
                                         .rows = args->rows,
                                         .out = args->out,
                                         .mix = args->mix,
                                         .base = args->base,
                                         .scale = args->scale,
                                         .gate_epsilon = args->gate_epsilon,
                                         .norm_epsilon = args->norm_epsilon});
    return STATUS_OK;
}

const struct op_entry LANES_NAME(hyper_connection_pre) = {.op = OP_HYPER_CONNECTION_PRE,
                                                          LANES_ENTRY(hyper_connection_pre),
                                                          .modes = OP_MODE_BOTH,
                                                          .run = run_pre,
                                                          .workspace_bytes = pre_workspace,
                                                          .can_run = can_run_pre};
const struct op_entry LANES_NAME(hyper_connection_head) = {.op = OP_HYPER_CONNECTION_HEAD,
                                                           LANES_ENTRY(hyper_connection_head),
                                                           .modes = OP_MODE_BOTH,
                                                           .run = run_head,
                                                           .workspace_bytes = head_workspace,
                                                           .can_run = can_run_head};
