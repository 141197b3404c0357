/* Rows on their way into the state: encoding and back, raw compressor rows, and the commit into the ring. */
#include <string.h>

#include "ops/commit_rows.h"
#include "ops/compressor_rows.h"
#include "ops/decode_rows.h"
#include "ops/encode_rows.h"
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"

static void encode_row(const void *context, int64_t row, void *workspace) {
    const struct encode_rows_args *args = context;
    float *values = workspace;
    reference_read(&args->x, row * args->layout.width, args->layout.width, values);
    row_encode(&args->layout, values, args->out + (size_t)row * row_layout_bytes(&args->layout));
}

static size_t encode_workspace(const void *arguments, unsigned thread_count) {
    const struct encode_rows_args *args = arguments;
    return thread_count * kernel_float_bytes(args->layout.width);
}

static enum status run_encode(const struct kernel_env *env, const void *arguments) {
    const struct encode_rows_args *args = arguments;
    kernel_for_each_item(env, args->x.shape[0], encode_row, args, env->workspace,
                         kernel_float_bytes(args->layout.width));
    return STATUS_OK;
}

static void decode_row(const void *context, int64_t row, void *workspace) {
    const struct decode_rows_args *args = context;
    float *values = workspace;
    row_decode(&args->layout, args->rows + (size_t)row * row_layout_bytes(&args->layout), values);
    reference_write(&args->out, row * args->layout.width, args->layout.width, values);
}

static size_t decode_workspace(const void *arguments, unsigned thread_count) {
    const struct decode_rows_args *args = arguments;
    return thread_count * kernel_float_bytes(args->layout.width);
}

static enum status run_decode(const struct kernel_env *env, const void *arguments) {
    const struct decode_rows_args *args = arguments;
    kernel_for_each_item(env, args->out.shape[0], decode_row, args, env->workspace,
                         kernel_float_bytes(args->layout.width));
    return STATUS_OK;
}

static void add_bias_row(const void *context, int64_t row, void *workspace) {
    const struct compressor_rows_args *args = context;
    int64_t width = args->bias->columns;
    float *values = workspace;
    float *bias = values + 2 * width;
    reference_read(&args->values, row * width, width, values);
    reference_read(&args->scores, row * width, width, values + width);
    weight_decode_row(args->bias, args->positions[row] % args->bias->rows, bias);
    for (int64_t i = 0; i < width; i++) {
        values[width + i] += bias[i];
    }
    reference_write(&args->out, row * 2 * width, 2 * width, values);
}

static size_t compressor_workspace(const void *arguments, unsigned thread_count) {
    const struct compressor_rows_args *args = arguments;
    return thread_count * kernel_float_bytes(3 * args->bias->columns);
}

static enum status run_compressor(const struct kernel_env *env, const void *arguments) {
    const struct compressor_rows_args *args = arguments;
    kernel_for_each_item(env, args->out.shape[0], add_bias_row, args, env->workspace,
                         kernel_float_bytes(3 * args->bias->columns));
    return STATUS_OK;
}

static void commit_segment(const void *context, int64_t segment, void *workspace) {
    (void)workspace;
    const struct commit_rows_args *args = context;
    const struct batch_view *batch = args->batch;
    const struct state_rows *ring = &args->chunk.ring;
    int64_t rows = batch->segment_row_count[segment];
    int64_t kept = rows < ring->rows_per_slot ? rows : ring->rows_per_slot;
    for (int64_t i = rows - kept; i < rows; i++) {
        const unsigned char *row =
            args->chunk.rows + (size_t)(batch->segment_first_row[segment] + i) * ring->row_bytes;
        int64_t position = batch->segment_first_position[segment] + i;
        memcpy(state_rows_at_position(ring, batch->segment_slot[segment], position), row, ring->row_bytes);
    }
}

static void keep_snapshot(const void *context, int64_t snapshot, void *workspace) {
    (void)workspace;
    const struct commit_rows_args *args = context;
    const struct batch_view *batch = args->batch;
    const struct state_rows *ring = &args->chunk.ring;
    int64_t segment = batch->snapshot_segment[snapshot];
    int64_t slot = batch->snapshot_slot[snapshot];
    int64_t end = batch->segment_first_position[segment] + batch->snapshot_rows[snapshot];
    int64_t first = end > ring->rows_per_slot ? end - ring->rows_per_slot : 0;
    for (int64_t position = first; slot < ring->slot_count && position < end; position++) {
        memcpy(state_rows_at_position(ring, slot, position),
               chunk_rows_at(&args->chunk, batch, segment, position), ring->row_bytes);
    }
}

static enum status run_commit(const struct kernel_env *env, const void *arguments) {
    const struct commit_rows_args *args = arguments;
    kernel_for_each_item(env, args->batch->snapshot_count, keep_snapshot, args, NULL, 0);
    kernel_for_each_item(env, args->batch->segment_count, commit_segment, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry encode_rows_reference = {
    .op = OP_ENCODE_ROWS,
    .name = "encode_rows_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_encode,
    .workspace_bytes = encode_workspace,
};
const struct op_entry decode_rows_reference = {
    .op = OP_DECODE_ROWS,
    .name = "decode_rows_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_decode,
    .workspace_bytes = decode_workspace,
};
const struct op_entry compressor_rows_reference = {
    .op = OP_COMPRESSOR_ROWS,
    .name = "compressor_rows_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_compressor,
    .workspace_bytes = compressor_workspace,
};
const struct op_entry commit_rows_reference = {
    .op = OP_COMMIT_ROWS,
    .name = "commit_rows_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_commit,
};
