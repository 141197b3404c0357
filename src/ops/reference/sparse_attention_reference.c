/*
 * Attention, row by row: the row's keys are decoded once in their fixed order, then every head runs a
 * two-pass softmax over them.
 */
#include "ops/sparse_attention.h"

#include <math.h>

#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"

/* Decodes the row's window keys, then its compressed keys, to keys (count, width); returns the count. */
static int64_t decode_keys(const struct sparse_attention_args *args, int64_t row, float *keys) {
    const struct batch_view *batch = args->batch;
    const struct row_layout *layout = &args->window_rows.ring.layout;
    int64_t segment = batch->row_segment[row];
    int64_t position = batch->positions[row];
    int64_t count = 0;
    int64_t first = position - args->window + 1;
    for (int64_t p = first < 0 ? 0 : first; p <= position; p++) {
        row_decode(layout, chunk_rows_at(&args->window_rows, batch, segment, p),
                   keys + count++ * layout->width);
    }
    int64_t visible = args->ratio == 0 ? 0 : (position + 1) / args->ratio;
    const int32_t *selection = NULL;
    if (args->selection.rank != 0) {
        selection = (const int32_t *)args->selection.data + row * args->selection.shape[1];
        visible = args->selection.shape[1];
    }
    for (int64_t i = 0; i < visible; i++) {
        int64_t entry = selection == NULL ? i : selection[i];
        if (entry >= 0) {
            row_decode(layout, state_rows_at_entry(&args->entries, batch->segment_slot[segment], entry),
                       keys + count++ * layout->width);
        }
    }
    return count;
}

/* Output of one head over `count` keys. logits: (count), sums: (width) are scratch. */
static void attend_head(const float *query, const float *keys, int64_t count, int64_t width, float scale,
                        float sink, float *logits, double *sums, float *out) {
    double largest = sink;
    for (int64_t n = 0; n < count; n++) {
        logits[n] = (float)(reference_dot(query, keys + n * width, width) * scale);
        largest = fmax(largest, logits[n]);
    }
    double denominator = exp(sink - largest);
    for (int64_t i = 0; i < width; i++) {
        sums[i] = 0.0;
    }
    for (int64_t n = 0; n < count; n++) {
        double weight = exp(logits[n] - largest);
        denominator += weight;
        for (int64_t i = 0; i < width; i++) {
            sums[i] += weight * keys[n * width + i];
        }
    }
    for (int64_t i = 0; i < width; i++) {
        out[i] = (float)(sums[i] / denominator);
    }
}

static size_t row_workspace(const struct sparse_attention_args *args) {
    int64_t heads = args->queries.shape[1];
    int64_t width = args->queries.shape[2];
    int64_t keys = sparse_attention_key_limit(args);
    return kernel_float_bytes(2 * width) + kernel_float_bytes(keys * width + keys + width + heads);
}

static void attend_row(const void *context, int64_t row, void *workspace) {
    const struct sparse_attention_args *args = context;
    int64_t heads = args->queries.shape[1];
    int64_t width = args->queries.shape[2];
    double *sums = workspace;
    float *query = (float *)(void *)((char *)workspace + kernel_float_bytes(2 * width));
    float *sinks = query + width;
    float *logits = sinks + heads;
    float *keys = logits + sparse_attention_key_limit(args);
    weight_decode_row(args->sink, 0, sinks);
    int64_t count = decode_keys(args, row, keys);
    for (int64_t h = 0; h < heads; h++) {
        int64_t first = (row * heads + h) * width;
        reference_read(&args->queries, first, width, query);
        attend_head(query, keys, count, width, args->scale, sinks[h], logits, sums, query);
        reference_write(&args->out, first, width, query);
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    return thread_count * row_workspace(arguments);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct sparse_attention_args *args = arguments;
    kernel_for_each_item(env, args->batch->row_count, attend_row, args, env->workspace, row_workspace(args));
    return STATUS_OK;
}

const struct op_entry sparse_attention_reference = {
    .op = OP_SPARSE_ATTENTION,
    .name = "sparse_attention_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
