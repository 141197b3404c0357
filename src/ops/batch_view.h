/*
 * The rows of one forward step, as kernels see them.
 *
 * A step holds `row_count` tokens in `segment_count` segments; a segment is a run of consecutive positions of
 * one sequence. A sequence's state lives in a slot. All arrays are I32 device memory.
 *
 * A snapshot keeps in another slot what the rings of a segment's slot hold after its first rows.
 */
#ifndef SLUICE_OPS_BATCH_VIEW_H
#define SLUICE_OPS_BATCH_VIEW_H

#include <stdint.h>

struct batch_view {
    int64_t row_count;
    int64_t segment_count;
    const int32_t *token_ids;              /* [row_count] */
    const int32_t *positions;              /* [row_count], 0-based in the sequence */
    const int32_t *row_segment;            /* [row_count] */
    const int32_t *segment_slot;           /* [segment_count] */
    const int32_t *segment_first_row;      /* [segment_count] */
    const int32_t *segment_first_position; /* [segment_count] */
    const int32_t *segment_row_count;      /* [segment_count] */
    int64_t snapshot_count;
    const int32_t *snapshot_segment; /* [snapshot_count], each segment once at most */
    const int32_t *snapshot_rows;    /* [snapshot_count], 1 to the segment's */
    const int32_t *snapshot_slot;    /* [snapshot_count], different ones, no segment's */
};

#endif
