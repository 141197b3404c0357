/*
 * Rows of positions that may lie before the step or inside it.
 *
 * A step's own rows are not written into their ring before the step has read it: later rows would overwrite
 * what earlier ones still need (spec parallelism M-22). Kernels therefore read a position from the step's
 * rows if the segment holds it, from the ring otherwise.
 */
#ifndef SLUICE_OPS_CHUNK_ROWS_H
#define SLUICE_OPS_CHUNK_ROWS_H

#include "ops/batch_view.h"
#include "ops/state_rows.h"

struct chunk_rows {
    const unsigned char *rows; /* device memory: [row_count][ring.row_bytes], encoded as the ring's rows */
    struct state_rows ring;
};

/* The encoded row of `position` in the sequence of `segment`. `position` must be in ring or step. */
static inline const unsigned char *chunk_rows_at(const struct chunk_rows *chunk,
                                                 const struct batch_view *batch, int64_t segment,
                                                 int64_t position) {
    int64_t offset = position - batch->segment_first_position[segment];
    if (offset >= 0) {
        return chunk->rows + (size_t)(batch->segment_first_row[segment] + offset) * chunk->ring.row_bytes;
    }
    return state_rows_at_position(&chunk->ring, batch->segment_slot[segment], position);
}

#endif
