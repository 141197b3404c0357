/*
 * The state of all sequences: rings by slot, append-only rows by page, in one allocation.
 *
 * Slots 0..sequence_slot_count-1 are for sequences, those behind them for snapshots: what a sequence's rings
 * hold at a multiple of page_tokens positions. Rings that hold nothing needed there (state_kind's
 * snapshot_period) exist in sequence slots only. A page holds the rows of page_tokens consecutive positions
 * for every append-only kind; the page table of sequence slots says which pages a sequence reads and writes.
 * Which page or slot belongs to whom is decided elsewhere.
 *
 * In memory each kind has its rows together, in the order of the state table and at multiples of 64 bytes;
 * the page table follows. One thread at a time. No allocation after state_pool_alloc.
 */
#ifndef SLUICE_ENGINE_STATE_POOL_H
#define SLUICE_ENGINE_STATE_POOL_H

#include "base/worker_pool.h"
#include "device/device.h"
#include "engine/step_plan.h"
#include "model/state_table.h"
#include "ops/numerics.h"
#include "ops/state_rows.h"

struct state_pool_options {
    int32_t sequence_slot_count;
    int32_t snapshot_slot_count;
    int64_t context_tokens; /* of one sequence, drafts included */
    int64_t page_tokens;    /* a multiple of 128 and of every ratio of the table */
};

struct state_pool {
    struct device *device;           /* borrowed */
    const struct state_table *table; /* borrowed */
    struct state_pool_options options;
    struct state_rows *rows; /* [count], indexed as the state table; owned */
    int count;
    int64_t pages_per_slot; /* that context_tokens need */
    size_t slot_bytes;      /* of all rings of a sequence slot */
    size_t snapshot_bytes;  /* of those that a snapshot holds */
    size_t page_bytes;      /* of all append-only kinds */

    int64_t page_count;      /* 0 before state_pool_alloc */
    int32_t *page_table;     /* host copy of the device's: [sequence_slot_count][pages_per_slot] */
    void *memory;            /* device memory behind all rows and the page table */
    size_t bytes;            /* of memory */
    size_t row_memory_bytes; /* of the rows' part, which comes first */
};

/*
 * Describes rows and sizes; takes no device memory, and `device` may be NULL if state_pool_alloc is not
 * called. The rows serve for planning: their memory and page tables are NULL. What points to them sees them
 * complete after state_pool_alloc. Deinit also after a failure.
 */
enum status state_pool_init(struct state_pool *pool, struct device *device, const struct state_table *table,
                            enum numerics numerics, const struct state_pool_options *options);

/* Device memory that state_pool_alloc takes for so many pages. */
size_t state_pool_bytes(const struct state_pool *pool, int64_t page_count);

/*
 * Allocates the described slots and `page_count` pages, once. Page tables are all -1. Draft rings are zero:
 * a draft layer may read rows that nobody wrote, and these must be finite. All else is undefined: no row is
 * read before it was written (spec parallelism M-24).
 */
enum status state_pool_alloc(struct state_pool *pool, int64_t page_count);

/*
 * Zeroes all rows from the pool's threads, in slices: where memory has several nodes, a page lies on that of
 * the thread which wrote it first, and slices spread over all nodes what all threads will read. For devices
 * that read host memory.
 */
enum status state_pool_spread(struct state_pool *pool, struct worker_pool *workers);

/* Frees the memory; nothing to do for a zeroed struct. */
void state_pool_deinit(struct state_pool *pool);

/*
 * Gives each sequence slot pages of its own, slot after slot: pages slot * pages_per_slot and on. For engines
 * whose slots share nothing; there must be as many pages.
 */
enum status state_pool_map_own_pages(struct state_pool *pool, struct stream *stream);

/*
 * Makes a plan's changes to the page tables, in order. The stream must have run what it was given by the last
 * call.
 */
enum status state_pool_update_pages(struct state_pool *pool, struct stream *stream,
                                    const struct step_page_update *updates, int32_t count);

/* Fills the draft layer's rings of a sequence's slot with zeros. */
enum status state_pool_clear_draft_rings(struct state_pool *pool, struct stream *stream, int32_t slot);

/*
 * Copies the rings of a slot. With a snapshot slot on either side these are the rings that a snapshot holds;
 * the sequence must then be at a multiple of page_tokens positions.
 */
enum status state_pool_copy_slot(struct state_pool *pool, struct stream *stream, int32_t from, int32_t to);

/* Copies the rows of a page. */
enum status state_pool_copy_page(struct state_pool *pool, struct stream *stream, int32_t from, int32_t to);

/*
 * A page in host memory, page_bytes long: the page's rows of each append-only kind, kinds in the order of the
 * state table, without gaps. `host` must stay valid until the stream has run the copies.
 */
enum status state_pool_read_page(const struct state_pool *pool, struct stream *stream, int32_t page,
                                 void *host);
enum status state_pool_write_page(struct state_pool *pool, struct stream *stream, int32_t page,
                                  const void *host);

/*
 * The same for what a snapshot holds of a slot's rings, snapshot_bytes long: all rows of each such kind in
 * the ring's order. The slot may be a snapshot's or that of a sequence at a multiple of page_tokens
 * positions.
 */
enum status state_pool_read_slot(const struct state_pool *pool, struct stream *stream, int32_t slot,
                                 void *host);
enum status state_pool_write_slot(struct state_pool *pool, struct stream *stream, int32_t slot,
                                  const void *host);

#endif
