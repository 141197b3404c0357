/*
 * Writes a step's rows into their ring, at the end of a layer's part of the step.
 *
 * Of each segment the last ring.rows_per_slot rows are written, position p at row p modulo the ring's size.
 * Before that, the slot of each snapshot gets the ring as it would be if the segment ended after the
 * snapshot's rows: position p at the same row, out of the step or out of the ring. Rings without such a slot
 * (ring.slot_count) keep nothing of it.
 * Tolerance: exact.
 */
#ifndef SLUICE_OPS_COMMIT_ROWS_H
#define SLUICE_OPS_COMMIT_ROWS_H

#include "ops/batch_view.h"
#include "ops/chunk_rows.h"
#include "ops/op_queue.h"

struct commit_rows_args {
    struct chunk_rows chunk;
    const struct batch_view *batch;
};

enum status op_commit_rows(struct op_queue *queue, const struct commit_rows_args *args);

#endif
