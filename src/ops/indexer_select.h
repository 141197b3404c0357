/*
 * Scores the visible compressed entries and keeps the best (spec deepseek-v4 4.10).
 *
 * score(row, j) = sum_h relu(queries[row][h] . key_j) * w[row][h] for the entries j < (position + 1) /
 * ratio, with w = head_weights * weight_scale rounded to head_weights' type. selection[row] gets the indices
 * of the `limit` largest scores in ascending order, -1 beyond them; all visible ones if there are no more
 * than `limit`. Ties: lower index first.
 *
 * queries: (rows, heads, width), head_weights: (rows, heads), activation type. selection: I32 (rows, limit).
 * keys: paged. Tolerance: exact for equal scores.
 */
#ifndef SLUICE_OPS_INDEXER_SELECT_H
#define SLUICE_OPS_INDEXER_SELECT_H

#include "ops/batch_view.h"
#include "ops/op_queue.h"
#include "ops/state_rows.h"
#include "tensor/tensor.h"

struct indexer_select_args {
    struct tensor selection;
    struct tensor queries;
    struct tensor head_weights;
    struct state_rows keys;
    const struct batch_view *batch;
    int64_t ratio;
    float weight_scale; /* index_head_dim^-0.5 * index_n_heads^-0.5 */
};

enum status op_indexer_select(struct op_queue *queue, const struct indexer_select_args *args);

#endif
