/*
 * The state of all sequence slots, allocated once from the model's state table.
 */
#ifndef SLUICE_ENGINE_STATE_POOL_H
#define SLUICE_ENGINE_STATE_POOL_H

#include "base/worker_pool.h"
#include "device/device.h"
#include "model/state_table.h"
#include "ops/numerics.h"
#include "ops/state_rows.h"

struct state_pool {
    struct device *device;
    struct state_rows *rows; /* [count], indexed as the state table; owned */
    int count;
    void *memory; /* device memory behind all rows */
    size_t bytes;
};

/* Bytes that a pool of that size needs. */
size_t state_pool_bytes(const struct state_table *table, enum numerics numerics, int64_t slot_count,
                        int64_t positions);

/*
 * Allocates the rows of `slot_count` sequences of up to `positions` tokens. Contents are undefined: no row is
 * read before it was written (spec parallelism M-24).
 */
enum status state_pool_init(struct state_pool *pool, struct device *device, const struct state_table *table,
                            enum numerics numerics, int64_t slot_count, int64_t positions);

/*
 * Zeroes all rows from the pool's threads, in slices: where memory has several nodes, a page lies on that of
 * the thread which wrote it first, and slices spread over all nodes what all threads will read. For devices
 * that read host memory.
 */
enum status state_pool_spread(struct state_pool *pool, struct worker_pool *workers);

/* Frees the memory; nothing to do for a zeroed struct. */
void state_pool_deinit(struct state_pool *pool);

#endif
