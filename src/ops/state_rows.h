/*
 * The remembered rows of one state kind, for all sequence slots.
 *
 * Every address is a function of (slot, absolute position): a ring keeps position p at row p modulo its
 * size, an append-only store keeps entry j at row j. Nothing has to be undone when drafted tokens are
 * rejected: a stale row is rewritten before a committed position can read it (spec parallelism 4.5, M-24).
 */
#ifndef SLUICE_OPS_STATE_ROWS_H
#define SLUICE_OPS_STATE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "tensor/row_layout.h"

struct state_rows {
    struct row_layout layout;
    size_t row_bytes;
    int64_t rows_per_slot;
    int64_t slot_count;
    void *memory; /* device memory: [slot_count][rows_per_slot][row_bytes] */
};

static inline unsigned char *state_rows_at(const struct state_rows *state, int64_t slot, int64_t row) {
    return (unsigned char *)state->memory + (size_t)(slot * state->rows_per_slot + row) * state->row_bytes;
}

/* Row of absolute position `position` in a ring. */
static inline unsigned char *state_rows_at_position(const struct state_rows *state, int64_t slot,
                                                    int64_t position) {
    return state_rows_at(state, slot, position % state->rows_per_slot);
}

#endif
