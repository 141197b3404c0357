/*
 * Pooling of raw rows into one entry per finished block. The entry is kept in the type that each step is
 * rounded to.
 */
#include "ops/compress_entries.h"

#include "backends/cpu/lanes/hadamard_lanes.h"
#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/norm_math_lanes.h"
#include "backends/cpu/lanes/rope_math_lanes.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "backends/cpu/lanes/row_encode_lanes.h"

/* Channels that one walk over the positions takes at once, in pieces. */
enum { POOL_PIECES = 4 };

/* The positions first..last that one entry pools; those before block_start belong to the earlier block. */
struct pool_span {
    const struct compress_entries_args *args;
    int64_t segment;
    int64_t first;
    int64_t last;
    int64_t block_start;
    int64_t raw_width;
};

/* Values of the pooled channels from `channel` at one position; its scores lie raw_width further on. */
static const float *values_at(const struct pool_span *span, int64_t position, int64_t channel) {
    const struct compress_entries_args *args = span->args;
    const void *row = chunk_rows_at(&args->raw, args->batch, span->segment, position);
    int64_t own_offset = args->has_overlap && position >= span->block_start ? args->width : 0;
    return (const float *)row + own_offset + channel;
}

/* Softmax-weighted sums of `pieces` pieces of channels, of which `left` remain. */
LANES_INLINE void pool_channels(const struct pool_span *span, int pieces, int64_t channel, int64_t left,
                                f32_piece *out) {
    f32_piece largest[POOL_PIECES];
    f32_piece weights[POOL_PIECES] = {0};
    f32_piece sums[POOL_PIECES] = {0};
#pragma GCC unroll 4
    for (int p = 0; p < pieces; p++) {
        largest[p] = piece_splat(-INFINITY);
    }
    for (int64_t position = span->first; position <= span->last; position++) {
        const float *scores = values_at(span, position, channel) + span->raw_width;
#pragma GCC unroll 4
        for (int p = 0; p < pieces; p++) {
            largest[p] = piece_max(piece_read(DTYPE_F32, scores, p * PIECE_LANES, left), largest[p]);
        }
    }
    for (int64_t position = span->first; position <= span->last; position++) {
        const float *values = values_at(span, position, channel);
        const float *scores = values + span->raw_width;
#pragma GCC unroll 4
        for (int p = 0; p < pieces; p++) {
            f32_piece score = piece_read(DTYPE_F32, scores, p * PIECE_LANES, left);
            f32_piece weight = piece_exp(score - largest[p]);
            weights[p] += weight;
            sums[p] += weight * piece_read(DTYPE_F32, values, p * PIECE_LANES, left);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < pieces; p++) {
        out[p] = sums[p] / weights[p];
    }
}

LANES_INLINE void pool_entry(enum dtype dtype, const struct pool_span *span, void *entry) {
    int64_t width = span->args->width;
    int64_t i = 0;
    for (; i + POOL_PIECES * PIECE_LANES <= width; i += POOL_PIECES * PIECE_LANES) {
        f32_piece pooled[POOL_PIECES];
        pool_channels(span, POOL_PIECES, i, PIECE_LANES, pooled);
        for (int p = 0; p < POOL_PIECES; p++) {
            piece_write(dtype, entry, i + p * PIECE_LANES, PIECE_LANES, pooled[p]);
        }
    }
    for (; i < width; i += PIECE_LANES) {
        f32_piece pooled;
        pool_channels(span, 1, i, width - i, &pooled);
        piece_write(dtype, entry, i, width - i, pooled);
    }
}

LANES_INLINE void compress_row_typed(enum dtype dtype, const struct compress_entries_args *args, int64_t row,
                                     void *workspace) {
    int64_t position = args->batch->positions[row];
    int64_t segment = args->batch->row_segment[row];
    int64_t block_start = position - (args->ratio - 1);
    int64_t index = position / args->ratio;
    bool has_earlier = args->has_overlap && block_start >= args->ratio;
    struct pool_span span = {.args = args,
                             .segment = segment,
                             .first = has_earlier ? block_start - args->ratio : block_start,
                             .last = position,
                             .block_start = block_start,
                             .raw_width = args->raw.ring.layout.width / 2};
    struct lanes_rotation rotation;
    int pair_count = args->rope->pair_count;
    void *entry = workspace;
    pool_entry(dtype, &span, entry);
    lanes_norm_row(dtype, entry, entry, args->width, args->norm, args->epsilon);
    lanes_rotation_init(&rotation, args->rope, index * args->ratio, false);
    lanes_rotate(dtype, entry, args->width - 2 * pair_count, pair_count, &rotation);
    if (args->has_hadamard) {
        lanes_hadamard(dtype, entry, 0, args->width, (float *)workspace + args->width);
    }
    int64_t slot = args->batch->segment_slot[segment];
    lanes_encode_row(dtype, &args->entries.layout, entry, 0,
                     state_rows_at_entry(&args->entries, slot, index));
}

static void compress_row(const void *context, int64_t row, void *workspace) {
    const struct compress_entries_args *args = context;
    if ((args->batch->positions[row] + 1) % args->ratio != 0) {
        return;
    }
    if (args->rounding == DTYPE_F32) {
        compress_row_typed(DTYPE_F32, args, row, workspace);
    } else {
        compress_row_typed(DTYPE_BF16, args, row, workspace);
    }
}

static size_t row_workspace(const struct compress_entries_args *args) {
    return kernel_float_bytes(2 * args->width);
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    return thread_count * row_workspace(arguments);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct compress_entries_args *args = arguments;
    /* A pooled row is read twice and its exponentials cost as much again. */
    int64_t row_bytes = 4 * (int64_t)args->raw.ring.row_bytes;
    lanes_for_each_row(env, args->batch->row_count, row_bytes, compress_row, args, env->workspace,
                       row_workspace(args));
    return STATUS_OK;
}

const struct op_entry LANES_NAME(compress_entries) = {.op = OP_COMPRESS_ENTRIES,
                                                      LANES_ENTRY(compress_entries),
                                                      .modes = OP_MODE_BOTH,
                                                      .run = run,
                                                      .workspace_bytes = workspace_bytes};
