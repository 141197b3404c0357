/* One allocation, cut up by the state table. */
#include "engine/state_pool.h"

#include <stdlib.h>
#include <string.h>

enum { STATE_ALIGNMENT = 64, SLICE_BYTES = 2 << 20, PAGE_UNIT = 128, NO_PAGE = -1 };

static size_t aligned(size_t bytes) {
    return (bytes + STATE_ALIGNMENT - 1) & ~(size_t)(STATE_ALIGNMENT - 1);
}

static bool is_in_snapshots(const struct state_pool *pool, const struct state_kind *kind) {
    return kind->shape == STATE_RING &&
           (kind->snapshot_period == 0 || pool->options.page_tokens % kind->snapshot_period != 0);
}

static int32_t slot_count(const struct state_pool *pool) {
    return pool->options.sequence_slot_count + pool->options.snapshot_slot_count;
}

static bool is_snapshot_slot(const struct state_pool *pool, int32_t slot) {
    return slot >= pool->options.sequence_slot_count;
}

/* Bytes that one slot of a ring has, or one page of an append-only kind. */
static size_t part_bytes(const struct state_rows *rows) {
    int64_t count = rows->rows_per_page > 0 ? rows->rows_per_page : rows->rows_per_slot;
    return (size_t)count * rows->row_bytes;
}

static unsigned char *part_at(const struct state_rows *rows, int32_t part) {
    return (unsigned char *)rows->memory + (size_t)part * part_bytes(rows);
}

static struct state_rows describe(const struct state_pool *pool, const struct state_kind *kind,
                                  enum numerics numerics) {
    struct state_rows rows = {.slot_count = pool->options.sequence_slot_count};
    rows.layout = numerics_row_layout(numerics, kind->row, kind->width, kind->plain_width);
    rows.row_bytes = row_layout_bytes(&rows.layout);
    rows.rows_per_slot = state_kind_rows(kind, pool->options.context_tokens);
    if (kind->shape == STATE_APPEND) {
        rows.rows_per_page = pool->options.page_tokens / kind->ratio;
        rows.pages_per_slot = pool->pages_per_slot;
    } else if (is_in_snapshots(pool, kind)) {
        rows.slot_count = slot_count(pool);
    }
    return rows;
}

static enum status check_pages(const struct state_table *table, const struct state_pool_options *options) {
    CHECK(options->page_tokens > 0 && options->page_tokens % PAGE_UNIT == 0, STATUS_OUT_OF_RANGE,
          "a state page of %lld tokens was asked for, expected a multiple of %d",
          (long long)options->page_tokens, PAGE_UNIT);
    for (int i = 0; i < table->count; i++) {
        const struct state_kind *kind = &table->kinds[i];
        CHECK(
            kind->shape != STATE_APPEND || options->page_tokens % kind->ratio == 0, STATUS_UNSUPPORTED,
            "layer %d keeps a \"%s\" row for every %lld tokens, but a state page holds %lld tokens, which is "
            "no multiple of that",
            kind->layer, kind->name, (long long)kind->ratio, (long long)options->page_tokens);
    }
    return STATUS_OK;
}

static void add_sizes(struct state_pool *pool, int index) {
    const struct state_kind *kind = &pool->table->kinds[index];
    size_t bytes = part_bytes(&pool->rows[index]);
    if (kind->shape == STATE_APPEND) {
        pool->page_bytes += bytes;
        return;
    }
    pool->slot_bytes += bytes;
    pool->snapshot_bytes += is_in_snapshots(pool, kind) ? bytes : 0;
}

static size_t table_entries(const struct state_pool *pool) {
    return (size_t)(pool->options.sequence_slot_count * pool->pages_per_slot);
}

enum status state_pool_init(struct state_pool *pool, struct device *device, const struct state_table *table,
                            enum numerics numerics, const struct state_pool_options *options) {
    *pool = (struct state_pool){.device = device, .table = table, .options = *options};
    pool->rows = calloc((size_t)table->count, sizeof *pool->rows);
    CHECK_MEMORY(pool->rows);
    TRY(check_pages(table, options));
    pool->count = table->count;
    pool->pages_per_slot = (options->context_tokens + options->page_tokens - 1) / options->page_tokens;
    for (int i = 0; i < table->count; i++) {
        pool->rows[i] = describe(pool, &table->kinds[i], numerics);
        add_sizes(pool, i);
    }
    return STATUS_OK;
}

/* Bytes of all rows of a kind. */
static size_t kind_bytes(const struct state_rows *rows, int64_t page_count) {
    return aligned(part_bytes(rows) * (size_t)(rows->rows_per_page > 0 ? page_count : rows->slot_count));
}

static size_t all_row_bytes(const struct state_pool *pool, int64_t page_count) {
    size_t bytes = 0;
    for (int i = 0; i < pool->count; i++) {
        bytes += kind_bytes(&pool->rows[i], page_count);
    }
    return bytes;
}

size_t state_pool_bytes(const struct state_pool *pool, int64_t page_count) {
    return all_row_bytes(pool, page_count) + aligned(table_entries(pool) * sizeof *pool->page_table);
}

static int32_t *device_table(const struct state_pool *pool) {
    return (int32_t *)(void *)((unsigned char *)pool->memory + pool->row_memory_bytes);
}

/* Cuts the memory up. */
static void place_rows(struct state_pool *pool) {
    size_t offset = 0;
    for (int i = 0; i < pool->count; i++) {
        struct state_rows *rows = &pool->rows[i];
        rows->memory = (unsigned char *)pool->memory + offset;
        rows->page_table = rows->rows_per_page > 0 ? device_table(pool) : NULL;
        offset += kind_bytes(rows, pool->page_count);
    }
}

/* What must not be undefined. */
static enum status fill_memory(struct state_pool *pool, struct stream *stream) {
    size_t table_bytes = table_entries(pool) * sizeof *pool->page_table;
    for (int i = 0; i < pool->count; i++) {
        const struct state_rows *rows = &pool->rows[i];
        const struct state_kind *kind = &pool->table->kinds[i];
        if (kind->is_draft && kind->shape == STATE_RING) {
            TRY(stream_fill(stream, rows->memory, 0, kind_bytes(rows, pool->page_count)));
        }
    }
    /* All ones are NO_PAGE. */
    memset(pool->page_table, 0xFF, table_bytes);
    TRY(stream_fill(stream, device_table(pool), 0xFF, table_bytes));
    return stream_synchronize(stream);
}

enum status state_pool_alloc(struct state_pool *pool, int64_t page_count) {
    struct stream *stream;
    CHECK(page_count >= 0 && page_count <= INT32_MAX, STATUS_OUT_OF_RANGE,
          "%lld state pages were asked for, expected 0 to %d", (long long)page_count, INT32_MAX);
    pool->page_table = calloc(table_entries(pool), sizeof *pool->page_table);
    CHECK_MEMORY(pool->page_table);
    pool->page_count = page_count;
    pool->bytes = state_pool_bytes(pool, page_count);
    pool->row_memory_bytes = all_row_bytes(pool, page_count);
    TRY(device_memory_alloc(pool->device, pool->bytes, &pool->memory));
    place_rows(pool);
    TRY(device_stream_create(pool->device, &stream));
    enum status status = fill_memory(pool, stream);
    device_stream_destroy(&stream);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

struct spread {
    const struct state_pool *pool;
    struct stream **streams; /* one per worker: a stream serves one thread at a time */
    enum status *statuses;   /* the same */
};

static void zero_slice(void *context, size_t index, unsigned worker) {
    const struct spread *spread = context;
    size_t first = index * SLICE_BYTES;
    size_t left = spread->pool->row_memory_bytes - first;
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
    worker_pool_run(workers, (pool->row_memory_bytes + SLICE_BYTES - 1) / SLICE_BYTES, zero_slice, &spread);
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
    free(pool->page_table);
    *pool = (struct state_pool){0};
}

enum status state_pool_map_own_pages(struct state_pool *pool, struct stream *stream) {
    size_t entries = table_entries(pool);
    CHECK(entries <= (size_t)pool->page_count, STATUS_INTERNAL,
          "%lld state pages are too few for %zu of the slots' own", (long long)pool->page_count, entries);
    for (size_t i = 0; i < entries; i++) {
        pool->page_table[i] = (int32_t)i;
    }
    return stream_copy_to_device(stream, device_table(pool), pool->page_table,
                                 entries * sizeof *pool->page_table);
}

static enum status check_page(const struct state_pool *pool, int32_t page) {
    CHECK(page >= 0 && page < pool->page_count, STATUS_INTERNAL, "state page %d of %lld", page,
          (long long)pool->page_count);
    return STATUS_OK;
}

static enum status check_slot(int32_t slot, int32_t limit) {
    CHECK(slot >= 0 && slot < limit, STATUS_INTERNAL, "state slot %d of %d", slot, limit);
    return STATUS_OK;
}

static enum status note_update(struct state_pool *pool, const struct step_page_update *update) {
    TRY(check_slot(update->slot, pool->options.sequence_slot_count));
    CHECK(update->index >= 0 && update->index < pool->pages_per_slot, STATUS_INTERNAL,
          "entry %d of a page table of %lld", update->index, (long long)pool->pages_per_slot);
    if (update->page != NO_PAGE) {
        TRY(check_page(pool, update->page));
    }
    pool->page_table[update->slot * pool->pages_per_slot + update->index] = update->page;
    return STATUS_OK;
}

/* Changes the host's table first, then copies entries that lie side by side at once. */
enum status state_pool_update_pages(struct state_pool *pool, struct stream *stream,
                                    const struct step_page_update *updates, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        TRY(note_update(pool, &updates[i]));
    }
    int32_t run;
    for (int32_t i = 0; i < count; i += run) {
        for (run = 1; i + run < count && updates[i + run].slot == updates[i].slot &&
                      updates[i + run].index == updates[i].index + run;
             run++) {
        }
        int64_t first = updates[i].slot * pool->pages_per_slot + updates[i].index;
        TRY(stream_copy_to_device(stream, device_table(pool) + first, pool->page_table + first,
                                  (size_t)run * sizeof *pool->page_table));
    }
    return STATUS_OK;
}

enum status state_pool_clear_draft_rings(struct state_pool *pool, struct stream *stream, int32_t slot) {
    TRY(check_slot(slot, pool->options.sequence_slot_count));
    for (int i = 0; i < pool->count; i++) {
        const struct state_kind *kind = &pool->table->kinds[i];
        const struct state_rows *rows = &pool->rows[i];
        if (kind->is_draft && kind->shape == STATE_RING) {
            TRY(stream_fill(stream, part_at(rows, slot), 0, part_bytes(rows)));
        }
    }
    return STATUS_OK;
}

enum status state_pool_copy_slot(struct state_pool *pool, struct stream *stream, int32_t from, int32_t to) {
    TRY(check_slot(from, slot_count(pool)));
    TRY(check_slot(to, slot_count(pool)));
    bool is_snapshot = is_snapshot_slot(pool, from) || is_snapshot_slot(pool, to);
    for (int i = 0; i < pool->count && from != to; i++) {
        const struct state_kind *kind = &pool->table->kinds[i];
        const struct state_rows *rows = &pool->rows[i];
        if (kind->shape == STATE_RING && (!is_snapshot || is_in_snapshots(pool, kind))) {
            TRY(stream_copy_within(stream, part_at(rows, to), part_at(rows, from), part_bytes(rows)));
        }
    }
    return STATUS_OK;
}

enum status state_pool_copy_page(struct state_pool *pool, struct stream *stream, int32_t from, int32_t to) {
    TRY(check_page(pool, from));
    TRY(check_page(pool, to));
    for (int i = 0; i < pool->count && from != to; i++) {
        const struct state_rows *rows = &pool->rows[i];
        if (pool->table->kinds[i].shape == STATE_APPEND) {
            TRY(stream_copy_within(stream, part_at(rows, to), part_at(rows, from), part_bytes(rows)));
        }
    }
    return STATUS_OK;
}

/* What goes to host memory and back: a page, or what a snapshot holds of a slot. */
static bool is_packed(const struct state_pool *pool, int index, enum state_shape shape) {
    const struct state_kind *kind = &pool->table->kinds[index];
    return kind->shape == shape && (shape == STATE_APPEND || is_in_snapshots(pool, kind));
}

static enum status read_parts(const struct state_pool *pool, struct stream *stream, enum state_shape shape,
                              int32_t part, unsigned char *host) {
    for (int i = 0; i < pool->count; i++) {
        if (is_packed(pool, i, shape)) {
            size_t bytes = part_bytes(&pool->rows[i]);
            TRY(stream_copy_to_host(stream, host, part_at(&pool->rows[i], part), bytes));
            host += bytes;
        }
    }
    return STATUS_OK;
}

static enum status write_parts(struct state_pool *pool, struct stream *stream, enum state_shape shape,
                               int32_t part, const unsigned char *host) {
    for (int i = 0; i < pool->count; i++) {
        if (is_packed(pool, i, shape)) {
            size_t bytes = part_bytes(&pool->rows[i]);
            TRY(stream_copy_to_device(stream, part_at(&pool->rows[i], part), host, bytes));
            host += bytes;
        }
    }
    return STATUS_OK;
}

enum status state_pool_read_page(const struct state_pool *pool, struct stream *stream, int32_t page,
                                 void *host) {
    TRY(check_page(pool, page));
    return read_parts(pool, stream, STATE_APPEND, page, host);
}

enum status state_pool_write_page(struct state_pool *pool, struct stream *stream, int32_t page,
                                  const void *host) {
    TRY(check_page(pool, page));
    return write_parts(pool, stream, STATE_APPEND, page, host);
}

enum status state_pool_read_slot(const struct state_pool *pool, struct stream *stream, int32_t slot,
                                 void *host) {
    TRY(check_slot(slot, slot_count(pool)));
    return read_parts(pool, stream, STATE_RING, slot, host);
}

enum status state_pool_write_slot(struct state_pool *pool, struct stream *stream, int32_t slot,
                                  const void *host) {
    TRY(check_slot(slot, slot_count(pool)));
    return write_parts(pool, stream, STATE_RING, slot, host);
}
