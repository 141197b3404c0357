/*
 * Attention over a sliding window and compressed entries, with a sink (spec deepseek-v4 4.7).
 *
 * For each row at position t and each head: keys (which are the values too) are the window rows of positions
 * max(0, t - window + 1) .. t, oldest first, then compressed entries in ascending order: those of
 * selection[row] (fillers -1 are skipped), or without a selection all visible ones (j < (t + 1) / ratio);
 * none if ratio is 0. Logits are q . k * scale; sink[head] joins the denominator only, unscaled.
 *
 * queries, out: (rows, heads, width), activation type; out may be queries. window rows and entries share
 * one layout of that width; entries are paged. sink: PLAIN F32 (1, heads). selection: I32 (rows, limit), or
 * rank 0 for none. The order of a row's sum depends on that row's own keys only. Tolerance: NMSE.
 */
#ifndef SLUICE_OPS_SPARSE_ATTENTION_H
#define SLUICE_OPS_SPARSE_ATTENTION_H

#include "ops/batch_view.h"
#include "ops/chunk_rows.h"
#include "ops/op_queue.h"
#include "ops/state_rows.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct sparse_attention_args {
    struct tensor out;
    struct tensor queries;
    struct chunk_rows window_rows;
    struct state_rows entries;
    struct tensor selection;
    const struct weight *sink;
    const struct batch_view *batch;
    int64_t window;
    int64_t ratio;
    float scale;
};

/* The most keys that a row can have, for workspaces. Looks at shapes only. */
int64_t sparse_attention_key_limit(const struct sparse_attention_args *args);

enum status op_sparse_attention(struct op_queue *queue, const struct sparse_attention_args *args);

#endif
