/* Rows on their way into the state: encoding and back, raw compressor rows, and the commit into the ring. */
#include <string.h>

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "backends/cpu/lanes/row_decode_lanes.h"
#include "backends/cpu/lanes/row_encode_lanes.h"
#include "ops/commit_rows.h"
#include "ops/compressor_rows.h"
#include "ops/decode_rows.h"
#include "ops/encode_rows.h"
#include "ops/kernel_items.h"

static void encode_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct encode_rows_args *args = context;
    lanes_encode_row(args->x.dtype, &args->layout, args->x.data, row * args->layout.width,
                     args->out + (size_t)row * row_layout_bytes(&args->layout));
}

static enum status run_encode(const struct kernel_env *env, const void *arguments) {
    const struct encode_rows_args *args = arguments;
    /* Coding a channel costs as much as moving eight bytes. */
    lanes_for_each_row(env, args->x.shape[0], 8 * args->layout.width, encode_row, args, NULL, 0);
    return STATUS_OK;
}

static void decode_row(const void *context, int64_t row, void *workspace) {
    const struct decode_rows_args *args = context;
    int64_t width = args->layout.width;
    const float *values = lanes_decode_row(
        &args->layout, args->rows + (size_t)row * row_layout_bytes(&args->layout), workspace);
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        int64_t left = width - i;
        piece_write(args->out.dtype, args->out.data, row * width + i, left,
                    piece_read(DTYPE_F32, values, i, left));
    }
}

static size_t decode_workspace(const void *arguments, unsigned thread_count) {
    const struct decode_rows_args *args = arguments;
    return thread_count * kernel_float_bytes(lanes_padded(args->layout.width));
}

static enum status run_decode(const struct kernel_env *env, const void *arguments) {
    const struct decode_rows_args *args = arguments;
    lanes_for_each_row(env, args->out.shape[0], 8 * args->layout.width, decode_row, args, env->workspace,
                       kernel_float_bytes(lanes_padded(args->layout.width)));
    return STATUS_OK;
}

static void compressor_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct compressor_rows_args *args = context;
    const struct weight *bias = args->bias;
    int64_t width = bias->columns;
    int64_t first = row * width;
    int64_t bias_first = args->positions[row] % bias->rows * width;
    float *out = (float *)args->out.data + row * 2 * width;
    memcpy(out, (const float *)args->values.data + first, (size_t)width * sizeof *out);
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        int64_t left = width - i;
        f32_piece score = piece_read(DTYPE_F32, args->scores.data, first + i, left);
        score += piece_read(bias->dtype, bias->data, bias_first + i, left);
        piece_write(DTYPE_F32, out, width + i, left, score);
    }
}

static enum status run_compressor(const struct kernel_env *env, const void *arguments) {
    const struct compressor_rows_args *args = arguments;
    int64_t row_bytes = 4 * args->bias->columns * (int64_t)sizeof(float);
    lanes_for_each_row(env, args->out.shape[0], row_bytes, compressor_row, args, NULL, 0);
    return STATUS_OK;
}

/* Rows of one segment go to different rows of the ring, so that any order will do. */
static void commit_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct commit_rows_args *args = context;
    const struct batch_view *batch = args->batch;
    const struct state_rows *ring = &args->chunk.ring;
    int64_t segment = batch->row_segment[row];
    int64_t offset = row - batch->segment_first_row[segment];
    if (offset + ring->rows_per_slot >= batch->segment_row_count[segment]) {
        int64_t position = batch->segment_first_position[segment] + offset;
        memcpy(state_rows_at_position(ring, batch->segment_slot[segment], position),
               args->chunk.rows + (size_t)row * ring->row_bytes, ring->row_bytes);
    }
}

/* Item: a row of a snapshot's ring. */
static void keep_row(const void *context, int64_t item, void *workspace) {
    (void)workspace;
    const struct commit_rows_args *args = context;
    const struct batch_view *batch = args->batch;
    const struct state_rows *ring = &args->chunk.ring;
    int64_t snapshot = item / ring->rows_per_slot;
    int64_t segment = batch->snapshot_segment[snapshot];
    int64_t slot = batch->snapshot_slot[snapshot];
    int64_t position = batch->segment_first_position[segment] + batch->snapshot_rows[snapshot] - 1 -
                       item % ring->rows_per_slot;
    if (slot < ring->slot_count && position >= 0) {
        memcpy(state_rows_at_position(ring, slot, position),
               chunk_rows_at(&args->chunk, batch, segment, position), ring->row_bytes);
    }
}

static enum status run_commit(const struct kernel_env *env, const void *arguments) {
    const struct commit_rows_args *args = arguments;
    int64_t kept = args->batch->snapshot_count * args->chunk.ring.rows_per_slot;
    lanes_for_each_row(env, kept, 2 * (int64_t)args->chunk.ring.row_bytes, keep_row, args, NULL, 0);
    lanes_for_each_row(env, args->batch->row_count, 2 * (int64_t)args->chunk.ring.row_bytes, commit_row, args,
                       NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(encode_rows) = {
    .op = OP_ENCODE_ROWS, LANES_ENTRY(encode_rows), .modes = OP_MODE_BOTH, .run = run_encode};
const struct op_entry LANES_NAME(decode_rows) = {.op = OP_DECODE_ROWS,
                                                 LANES_ENTRY(decode_rows),
                                                 .modes = OP_MODE_BOTH,
                                                 .run = run_decode,
                                                 .workspace_bytes = decode_workspace};
const struct op_entry LANES_NAME(compressor_rows) = {
    .op = OP_COMPRESSOR_ROWS, LANES_ENTRY(compressor_rows), .modes = OP_MODE_BOTH, .run = run_compressor};
const struct op_entry LANES_NAME(commit_rows) = {
    .op = OP_COMMIT_ROWS, LANES_ENTRY(commit_rows), .modes = OP_MODE_BOTH, .run = run_commit};
