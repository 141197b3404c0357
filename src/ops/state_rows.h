/*
 * The remembered rows of one state kind, for all sequence slots.
 *
 * Every address is a function of (slot, absolute position). A ring belongs to its slot and keeps position p
 * at row p modulo its size. An append-only store is paged: entry j of a slot lies in page j / rows_per_page,
 * at row j modulo rows_per_page; the page table says where that page is, so that sequences can share pages
 * and pages need not be neighbours. Nothing has to be undone when drafted tokens are rejected: a stale row is
 * rewritten before a committed position can read it (spec parallelism 4.5, M-24).
 */
#ifndef SLUICE_OPS_STATE_ROWS_H
#define SLUICE_OPS_STATE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "tensor/row_layout.h"

struct state_rows {
    struct row_layout layout;
    size_t row_bytes;
    int64_t slot_count;
    int64_t rows_per_slot; /* ring: its size; paged: the most entries that a slot can have */
    void *memory; /* device memory: [slot_count][rows_per_slot] or [pages][rows_per_page], [row_bytes] */

    /* Paged stores only; NULL and 0 for rings. Table entries behind a sequence's last page are -1. */
    const int32_t *page_table; /* device memory: [slot_count][pages_per_slot] */
    int64_t pages_per_slot;
    int64_t rows_per_page;
};

/* Of a ring: the row of absolute position `position`. */
static inline unsigned char *state_rows_at_position(const struct state_rows *ring, int64_t slot,
                                                    int64_t position) {
    int64_t row = slot * ring->rows_per_slot + position % ring->rows_per_slot;
    return (unsigned char *)ring->memory + (size_t)row * ring->row_bytes;
}

/* Of a paged store: entry `entry`. Its page must be in the slot's table. For kernels: reads device memory. */
static inline unsigned char *state_rows_at_entry(const struct state_rows *store, int64_t slot,
                                                 int64_t entry) {
    int64_t page = store->page_table[slot * store->pages_per_slot + entry / store->rows_per_page];
    int64_t row = page * store->rows_per_page + entry % store->rows_per_page;
    return (unsigned char *)store->memory + (size_t)row * store->row_bytes;
}

/* Of a paged store: how many of the `count` entries from `entry` on lie one after the other, at least 1. */
static inline int64_t state_rows_run(const struct state_rows *store, int64_t entry, int64_t count) {
    int64_t left = store->rows_per_page - entry % store->rows_per_page;
    return left < count ? left : count;
}

#endif
