/*
 * Pools raw compressor rows into entries and appends them (spec deepseek-v4 4.9).
 *
 * For each row of the batch that ends a block (position + 1 a multiple of ratio), entry j = position / ratio
 * is computed and written to entry j of the paged store `entries`:
 *   overlap (ratio 4): per channel i a softmax-weighted sum over the 4 tokens of block j-1 (channels i) and
 *   the 4 of block j (channels width + i); for j = 0 over block 0 only;
 *   otherwise: over the ratio tokens of block j.
 * Then RMS norm by `norm`, rotation at position j * ratio, for the indexer a Hadamard transform, and storage
 * in entries.layout. Each step is rounded to `rounding` (the activation type).
 *
 * raw: rows of 2 * raw_width floats, raw_width = width or 2 * width with overlap. The softmax runs in two
 * passes over positions in ascending order. Stale entries need no clearing. Tolerance: NMSE.
 */
#ifndef SLUICE_OPS_COMPRESS_ENTRIES_H
#define SLUICE_OPS_COMPRESS_ENTRIES_H

#include "ops/batch_view.h"
#include "ops/chunk_rows.h"
#include "ops/op_queue.h"
#include "ops/rope_table.h"
#include "ops/state_rows.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct compress_entries_args {
    struct chunk_rows raw;
    struct state_rows entries;
    const struct batch_view *batch;
    const struct weight *norm;
    const struct rope_table *rope;
    enum dtype rounding;
    int64_t ratio;
    int64_t width;
    bool has_overlap;
    bool has_hadamard;
    float epsilon;
};

enum status op_compress_entries(struct op_queue *queue, const struct compress_entries_args *args);

#endif
