/* One allocation, cut up by the state table. */
#include "engine/state_pool.h"

#include <stdlib.h>

enum { STATE_ALIGNMENT = 64, SLICE_BYTES = 2 << 20 };

static struct state_rows describe(const struct state_kind *kind, enum numerics numerics, int64_t slot_count,
                                  int64_t positions) {
    struct state_rows rows = {.slot_count = slot_count};
    rows.layout = numerics_row_layout(numerics, kind->row, kind->width, kind->plain_width);
    rows.row_bytes = row_layout_bytes(&rows.layout);
    rows.rows_per_slot = state_kind_rows(kind, positions);
    return rows;
}

static size_t rows_bytes(const struct state_rows *rows) {
    size_t bytes = (size_t)(rows->slot_count * rows->rows_per_slot) * rows->row_bytes;
    return (bytes + STATE_ALIGNMENT - 1) & ~(size_t)(STATE_ALIGNMENT - 1);
}

size_t state_pool_bytes(const struct state_table *table, enum numerics numerics, int64_t slot_count,
                        int64_t positions) {
    size_t bytes = 0;
    for (int i = 0; i < table->count; i++) {
        struct state_rows rows = describe(&table->kinds[i], numerics, slot_count, positions);
        bytes += rows_bytes(&rows);
    }
    return bytes;
}

enum status state_pool_init(struct state_pool *pool, struct device *device, const struct state_table *table,
                            enum numerics numerics, int64_t slot_count, int64_t positions) {
    *pool = (struct state_pool){.device = device, .count = table->count};
    pool->bytes = state_pool_bytes(table, numerics, slot_count, positions);
    pool->rows = calloc((size_t)table->count, sizeof *pool->rows);
    CHECK_MEMORY(pool->rows);
    TRY(device_memory_alloc(device, pool->bytes, &pool->memory));
    size_t offset = 0;
    for (int i = 0; i < table->count; i++) {
        pool->rows[i] = describe(&table->kinds[i], numerics, slot_count, positions);
        pool->rows[i].memory = (char *)pool->memory + offset;
        offset += rows_bytes(&pool->rows[i]);
    }
    return STATUS_OK;
}

struct spread {
    const struct state_pool *pool;
    struct stream **streams; /* one per worker: a stream serves one thread at a time */
    enum status *statuses;   /* the same */
};

static void zero_slice(void *context, size_t index, unsigned worker) {
    const struct spread *spread = context;
    size_t first = index * SLICE_BYTES;
    size_t left = spread->pool->bytes - first;
    struct stream *stream = spread->streams[worker];
    enum status status =
        stream_fill(stream, (char *)spread->pool->memory + first, 0, left < SLICE_BYTES ? left : SLICE_BYTES);
    if (status == STATUS_OK) {
        status = stream_synchronize(stream);
    }
    if (status != STATUS_OK) {
        spread->statuses[worker] = status;
    }
}

enum status state_pool_spread(struct state_pool *pool, struct worker_pool *workers) {
    enum status status = STATUS_OK;
    unsigned count = worker_pool_thread_count(workers);
    struct spread spread = {.pool = pool};
    spread.streams = calloc(count, sizeof *spread.streams);
    spread.statuses = calloc(count, sizeof *spread.statuses);
    CHECK_MEMORY_GOTO(spread.streams);
    CHECK_MEMORY_GOTO(spread.statuses);
    for (unsigned i = 0; i < count; i++) {
        TRY_GOTO(device_stream_create(pool->device, &spread.streams[i]));
    }
    worker_pool_run(workers, (pool->bytes + SLICE_BYTES - 1) / SLICE_BYTES, zero_slice, &spread);
    for (unsigned i = 0; i < count; i++) {
        CHECK_GOTO(spread.statuses[i] == STATUS_OK, spread.statuses[i], "the state could not be zeroed");
    }
fail:
    for (unsigned i = 0; i < count && spread.streams != NULL; i++) {
        device_stream_destroy(&spread.streams[i]);
    }
    free(spread.streams);
    free(spread.statuses);
    return status;
}

void state_pool_deinit(struct state_pool *pool) {
    if (pool->device != NULL) {
        device_memory_free(pool->device, &pool->memory);
    }
    free(pool->rows);
    *pool = (struct state_pool){0};
}
