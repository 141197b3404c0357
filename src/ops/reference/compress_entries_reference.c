/* Pooling of raw rows into one entry per finished block. */
#include <math.h>

#include "ops/compress_entries.h"
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"

/*
 * One channel's softmax-weighted sum over the positions first..last, in two passes. Channel `own` is read
 * from positions of the block itself, channel `earlier` from positions before `block_start`.
 */
static float pool_channel(const struct compress_entries_args *args, int64_t segment, int64_t first,
                          int64_t last, int64_t block_start, int64_t earlier, int64_t own) {
    int64_t raw_width = args->raw.ring.layout.width / 2;
    double largest = -INFINITY;
    for (int64_t position = first; position <= last; position++) {
        const float *row =
            (const float *)(const void *)chunk_rows_at(&args->raw, args->batch, segment, position);
        largest = fmax(largest, row[raw_width + (position < block_start ? earlier : own)]);
    }
    double denominator = 0.0;
    double sum = 0.0;
    for (int64_t position = first; position <= last; position++) {
        const float *row =
            (const float *)(const void *)chunk_rows_at(&args->raw, args->batch, segment, position);
        int64_t channel = position < block_start ? earlier : own;
        double weight = exp(row[raw_width + channel] - largest);
        denominator += weight;
        sum += weight * row[channel];
    }
    return (float)(sum / denominator);
}

static void pool_entry(const struct compress_entries_args *args, int64_t segment, int64_t position,
                       float *entry) {
    int64_t block_start = position - (args->ratio - 1);
    int64_t first = block_start;
    if (args->has_overlap && block_start >= args->ratio) {
        first -= args->ratio;
    }
    for (int64_t i = 0; i < args->width; i++) {
        int64_t own = args->has_overlap ? args->width + i : i;
        entry[i] = pool_channel(args, segment, first, position, block_start, i, own);
    }
}

static void compress_row(const void *context, int64_t row, void *workspace) {
    const struct compress_entries_args *args = context;
    int64_t position = args->batch->positions[row];
    if ((position + 1) % args->ratio != 0) {
        return;
    }
    float *entry = workspace;
    float *norm = entry + args->width;
    int64_t segment = args->batch->row_segment[row];
    int64_t index = position / args->ratio;
    pool_entry(args, segment, position, entry);
    reference_round(args->rounding, entry, args->width);
    weight_decode_row(args->norm, 0, norm);
    reference_rms_norm(entry, norm, args->width, args->epsilon);
    reference_round(args->rounding, entry, args->width);
    reference_rotate(entry, args->width, index * args->ratio, args->rope, 0);
    reference_round(args->rounding, entry, args->width);
    if (args->has_hadamard) {
        reference_hadamard(entry, args->width);
        reference_round(args->rounding, entry, args->width);
    }
    int64_t slot = args->batch->segment_slot[segment];
    row_encode(&args->entries.layout, entry, state_rows_at_entry(&args->entries, slot, index));
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    const struct compress_entries_args *args = arguments;
    return thread_count * kernel_float_bytes(2 * args->width);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct compress_entries_args *args = arguments;
    kernel_for_each_item(env, args->batch->row_count, compress_row, args, env->workspace,
                         kernel_float_bytes(2 * args->width));
    return STATUS_OK;
}

const struct op_entry compress_entries_reference = {
    .op = OP_COMPRESS_ENTRIES,
    .name = "compress_entries_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
