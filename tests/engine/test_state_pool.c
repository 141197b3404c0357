/*
 * The state's memory: its size by the formula, what is defined in it from the start, and what plans do to it,
 * on a device that watches over accesses too.
 *
 * Bytes are checked in a host copy of the whole memory against a second one that the test changes by the
 * layout as the header describes it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/backend_registry.h"
#include "engine/state_pool.h"

/* A page of 256 tokens: 64 entries of "compressed", 2 of "heavy". */
enum {
    SEQUENCES = 3,
    SNAPSHOTS = 2,
    CONTEXT = 700, /* 3 pages */
    PAGE_TOKENS = 256,
    PAGES_PER_SLOT = 3,
    PAGES = 7,
    KINDS = 6,
};

/* Rows of F32, so that a row has 4 bytes a channel. */
static struct state_kind kinds[KINDS] = {
    {.name = "window", .layer = 0, .shape = STATE_RING, .rows = 5, .width = 16},
    {.name = "compressed", .layer = 0, .shape = STATE_APPEND, .ratio = 4, .width = 3},
    {.name = "raw", .layer = 1, .shape = STATE_RING, .rows = 129, .width = 2, .snapshot_period = 128},
    {.name = "odd raw", .layer = 1, .shape = STATE_RING, .rows = 7, .width = 1, .snapshot_period = 96},
    {.name = "heavy", .layer = 1, .shape = STATE_APPEND, .ratio = 128, .width = 5},
    {.name = "window", .layer = 2, .is_draft = true, .shape = STATE_RING, .rows = 3, .width = 20},
};
enum { WINDOW, COMPRESSED, RAW, ODD_RAW, HEAVY, DRAFT };

/* Bytes of a slot or page of each kind, and how many of them there are. */
static const size_t part_bytes[KINDS] = {5 * 64, 64 * 12, 129 * 8, 7 * 4, 2 * 20, 3 * 80};
static const size_t part_counts[KINDS] = {SEQUENCES + SNAPSHOTS, PAGES, SEQUENCES,
                                          SEQUENCES + SNAPSHOTS, PAGES, SEQUENCES + SNAPSHOTS};

struct fixture {
    struct device *device;
    struct stream *stream;
    struct state_table table;
    struct state_pool pool;
    unsigned char *expected; /* the pool's memory as it should be; set by a test */
    size_t starts[KINDS];    /* of each kind in the memory */
    size_t table_start;
};

static const struct state_pool_options options = {.sequence_slot_count = SEQUENCES,
                                                  .snapshot_slot_count = SNAPSHOTS,
                                                  .context_tokens = CONTEXT,
                                                  .page_tokens = PAGE_TOKENS};

static size_t rounded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static int set_up(void **state) {
    const struct backend *backend;
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    for (int i = 0; i < KINDS; i++) {
        kinds[i].row = ROW_KIND_FLOAT;
    }
    fixture->table = (struct state_table){.kinds = kinds, .count = KINDS};
    assert_int_equal(backend_find(*state, &backend), STATUS_OK);
    assert_int_equal(backend->device_create(&fixture->device), STATUS_OK);
    assert_int_equal(device_stream_create(fixture->device, &fixture->stream), STATUS_OK);
    assert_int_equal(
        state_pool_init(&fixture->pool, fixture->device, &fixture->table, NUMERICS_NATIVE, &options),
        STATUS_OK);
    for (int i = 0; i < KINDS; i++) {
        fixture->starts[i] = fixture->table_start;
        fixture->table_start += rounded(part_bytes[i] * part_counts[i]);
    }
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    state_pool_deinit(&fixture->pool);
    free(fixture->expected);
    device_stream_destroy(&fixture->stream);
    device_destroy(&fixture->device);
    free(fixture);
    return 0;
}

static void expect_refusal(enum status status, enum status expected, const char *part) {
    assert_int_equal(status, expected);
    if (strstr(error_last()->message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error_last()->message, part);
    }
}

static unsigned char *download(const struct fixture *fixture) {
    unsigned char *bytes = malloc(fixture->pool.bytes);
    assert_non_null(bytes);
    assert_int_equal(stream_copy_to_host(fixture->stream, bytes, fixture->pool.memory, fixture->pool.bytes),
                     STATUS_OK);
    assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
    return bytes;
}

/* Allocates, fills all rows with numbers that tell them apart, and keeps a copy. */
static void allocate_filled(struct fixture *fixture) {
    struct state_pool *pool = &fixture->pool;
    assert_int_equal(state_pool_alloc(pool, PAGES), STATUS_OK);
    fixture->expected = download(fixture);
    for (size_t i = 0; i < fixture->table_start; i++) {
        fixture->expected[i] = (unsigned char)(i * 2654435761u >> 13 | 1); /* never 0 */
    }
    assert_int_equal(
        stream_copy_to_device(fixture->stream, pool->memory, fixture->expected, fixture->table_start),
        STATUS_OK);
    assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
}

static unsigned char *part(const struct fixture *fixture, int kind, int index) {
    return fixture->expected + fixture->starts[kind] + (size_t)index * part_bytes[kind];
}

static int32_t *table(const struct fixture *fixture) {
    return (int32_t *)(void *)(fixture->expected + fixture->table_start);
}

static void check_memory(const struct fixture *fixture) {
    unsigned char *actual = download(fixture);
    assert_memory_equal(actual, fixture->expected, fixture->pool.bytes);
    free(actual);
}

static void sizes_follow_the_formula(void **state) {
    struct fixture *fixture = *state;
    struct state_pool *pool = &fixture->pool;
    size_t slot_bytes = part_bytes[WINDOW] + part_bytes[RAW] + part_bytes[ODD_RAW] + part_bytes[DRAFT];
    /* 256 is a multiple of 128, not of 96. */
    size_t snapshot_bytes = slot_bytes - part_bytes[RAW];
    size_t page_bytes = part_bytes[COMPRESSED] + part_bytes[HEAVY];
    size_t table_bytes = SEQUENCES * PAGES_PER_SLOT * sizeof(int32_t);
    assert_int_equal(pool->slot_bytes, slot_bytes);
    assert_int_equal(pool->snapshot_bytes, snapshot_bytes);
    assert_int_equal(pool->page_bytes, page_bytes);
    assert_int_equal(pool->pages_per_slot, PAGES_PER_SLOT);
    assert_int_equal(device_memory_bytes(fixture->device), 0);
    for (int64_t pages = 0; pages < 20; pages += 7) {
        size_t sum = SEQUENCES * slot_bytes + SNAPSHOTS * snapshot_bytes + (size_t)pages * page_bytes;
        assert_in_range(state_pool_bytes(pool, pages), sum + table_bytes,
                        sum + table_bytes + KINDS * 63 + 63);
    }
    assert_int_equal(state_pool_alloc(pool, PAGES), STATUS_OK);
    assert_int_equal(pool->bytes, fixture->table_start + rounded(table_bytes));
    assert_int_equal(pool->bytes, state_pool_bytes(pool, PAGES));
    assert_int_equal(device_memory_bytes(fixture->device), pool->bytes);
    assert_int_equal(pool->row_memory_bytes, fixture->table_start);
}

/* Rows that were described before the allocation are the ones that have memory after it. */
static void rows_are_described_first(void **state) {
    struct fixture *fixture = *state;
    const struct state_rows *rows = fixture->pool.rows;
    assert_int_equal(rows[COMPRESSED].rows_per_slot, 175);
    assert_int_equal(rows[COMPRESSED].rows_per_page, 64);
    assert_int_equal(rows[HEAVY].rows_per_page, 2);
    assert_int_equal(rows[RAW].rows_per_slot, 129);
    assert_int_equal(rows[RAW].rows_per_page, 0);
    for (int i = 0; i < KINDS; i++) {
        assert_null(rows[i].memory);
        assert_null(rows[i].page_table);
    }
    assert_int_equal(state_pool_alloc(&fixture->pool, PAGES), STATUS_OK);
    assert_ptr_equal(fixture->pool.rows, rows);
    for (int i = 0; i < KINDS; i++) {
        assert_ptr_equal(rows[i].memory, (char *)fixture->pool.memory + fixture->starts[i]);
        assert_int_equal(rows[i].page_table != NULL, kinds[i].shape == STATE_APPEND);
    }
}

static void tables_and_draft_rings_are_defined(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(state_pool_alloc(&fixture->pool, PAGES), STATUS_OK);
    fixture->expected = download(fixture);
    for (size_t i = 0; i < part_bytes[DRAFT] * part_counts[DRAFT]; i++) {
        assert_int_equal(part(fixture, DRAFT, 0)[i], 0);
    }
    for (int i = 0; i < SEQUENCES * PAGES_PER_SLOT; i++) {
        assert_int_equal(table(fixture)[i], -1);
        assert_int_equal(fixture->pool.page_table[i], -1);
    }
}

/* What a plan changes, and nothing else, in the order in which it is asked for. */
static void plans_are_carried_out(void **state) {
    struct fixture *fixture = *state;
    struct state_pool *pool = &fixture->pool;
    allocate_filled(fixture);
    const struct step_page_update updates[] = {{1, 0, 6}, {1, 1, 2}, {0, 2, 4},
                                               {1, 2, 0}, {1, 0, 5}, {0, 1, -1}};
    assert_int_equal(state_pool_update_pages(pool, fixture->stream, updates, 6), STATUS_OK);
    assert_int_equal(state_pool_clear_draft_rings(pool, fixture->stream, 0), STATUS_OK);
    assert_int_equal(state_pool_clear_draft_rings(pool, fixture->stream, 2), STATUS_OK);
    /* Slot 3 is a snapshot: it gets the draft ring of slot 0 after that was cleared. */
    assert_int_equal(state_pool_copy_slot(pool, fixture->stream, 0, 3), STATUS_OK);
    assert_int_equal(state_pool_copy_slot(pool, fixture->stream, 3, 1), STATUS_OK);
    const int32_t pages[SEQUENCES * PAGES_PER_SLOT] = {-1, -1, 4, 5, 2, 0, -1, -1, -1};
    memcpy(table(fixture), pages, sizeof pages);
    memset(part(fixture, DRAFT, 0), 0, part_bytes[DRAFT]);
    memset(part(fixture, DRAFT, 2), 0, part_bytes[DRAFT]);
    const int copied[] = {WINDOW, ODD_RAW, DRAFT};
    for (int i = 0; i < 3; i++) {
        memcpy(part(fixture, copied[i], 3), part(fixture, copied[i], 0), part_bytes[copied[i]]);
        memcpy(part(fixture, copied[i], 1), part(fixture, copied[i], 3), part_bytes[copied[i]]);
    }
    check_memory(fixture);
    assert_memory_equal(fixture->pool.page_table, pages, sizeof pages);
    assert_int_equal(state_pool_update_pages(pool, fixture->stream, NULL, 0), STATUS_OK);
    check_memory(fixture);
}

/* Between sequences all rings are copied, whatever a snapshot would leave out. */
static void copies_between_sequences_are_whole(void **state) {
    struct fixture *fixture = *state;
    const int rings[] = {WINDOW, RAW, ODD_RAW, DRAFT};
    allocate_filled(fixture);
    assert_int_equal(state_pool_copy_slot(&fixture->pool, fixture->stream, 2, 0), STATUS_OK);
    assert_int_equal(state_pool_copy_slot(&fixture->pool, fixture->stream, 1, 1), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        memcpy(part(fixture, rings[i], 0), part(fixture, rings[i], 2), part_bytes[rings[i]]);
    }
    check_memory(fixture);
    assert_int_equal(state_pool_copy_page(&fixture->pool, fixture->stream, 1, 6), STATUS_OK);
    memcpy(part(fixture, COMPRESSED, 6), part(fixture, COMPRESSED, 1), part_bytes[COMPRESSED]);
    memcpy(part(fixture, HEAVY, 6), part(fixture, HEAVY, 1), part_bytes[HEAVY]);
    check_memory(fixture);
}

/* Pages and snapshots in host memory: packed as documented, and whole again elsewhere. */
static void pages_and_snapshots_travel(void **state) {
    struct fixture *fixture = *state;
    struct state_pool *pool = &fixture->pool;
    allocate_filled(fixture);
    unsigned char *page = malloc(pool->page_bytes);
    unsigned char *slot = malloc(pool->snapshot_bytes);
    assert_non_null(page);
    assert_non_null(slot);
    assert_int_equal(state_pool_read_page(pool, fixture->stream, 4, page), STATUS_OK);
    assert_int_equal(state_pool_read_slot(pool, fixture->stream, 1, slot), STATUS_OK);
    assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
    assert_memory_equal(page, part(fixture, COMPRESSED, 4), part_bytes[COMPRESSED]);
    assert_memory_equal(page + part_bytes[COMPRESSED], part(fixture, HEAVY, 4), part_bytes[HEAVY]);
    const int kept[] = {WINDOW, ODD_RAW, DRAFT};
    unsigned char *at = slot;
    for (int i = 0; i < 3; at += part_bytes[kept[i]], i++) {
        assert_memory_equal(at, part(fixture, kept[i], 1), part_bytes[kept[i]]);
        memcpy(part(fixture, kept[i], 4), at, part_bytes[kept[i]]);
        memcpy(part(fixture, kept[i], 2), at, part_bytes[kept[i]]);
    }
    memcpy(part(fixture, COMPRESSED, 0), part(fixture, COMPRESSED, 4), part_bytes[COMPRESSED]);
    memcpy(part(fixture, HEAVY, 0), part(fixture, HEAVY, 4), part_bytes[HEAVY]);
    assert_int_equal(state_pool_write_page(pool, fixture->stream, 0, page), STATUS_OK);
    assert_int_equal(state_pool_write_slot(pool, fixture->stream, 4, slot), STATUS_OK);
    assert_int_equal(state_pool_write_slot(pool, fixture->stream, 2, slot), STATUS_OK);
    check_memory(fixture);
    free(page);
    free(slot);
}

static void own_pages_do_not_overlap(void **state) {
    struct fixture *fixture = *state;
    struct state_pool *pool = &fixture->pool;
    assert_int_equal(state_pool_alloc(pool, SEQUENCES * PAGES_PER_SLOT), STATUS_OK);
    assert_int_equal(state_pool_map_own_pages(pool, fixture->stream), STATUS_OK);
    unsigned char *bytes = download(fixture);
    for (int32_t i = 0; i < SEQUENCES * PAGES_PER_SLOT; i++) {
        assert_int_equal(pool->page_table[i], i);
    }
    assert_memory_equal(bytes + pool->row_memory_bytes, pool->page_table,
                        SEQUENCES * PAGES_PER_SLOT * sizeof(int32_t));
    free(bytes);
}

static void what_is_not_there_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct state_pool *pool = &fixture->pool;
    allocate_filled(fixture);
    static const struct {
        struct step_page_update update;
        const char *part;
    } updates[] = {
        {{SEQUENCES, 0, 0}, "slot 3 of 3"},  {{-1, 0, 0}, "slot -1"},
        {{0, PAGES_PER_SLOT, 0}, "entry 3"}, {{0, -1, 0}, "entry -1"},
        {{0, 0, PAGES}, "page 7 of 7"},      {{0, 0, -2}, "page -2"},
    };
    for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) {
        expect_refusal(state_pool_update_pages(pool, fixture->stream, &updates[i].update, 1), STATUS_INTERNAL,
                       updates[i].part);
    }
    expect_refusal(state_pool_clear_draft_rings(pool, fixture->stream, SEQUENCES), STATUS_INTERNAL,
                   "slot 3 of 3");
    expect_refusal(state_pool_copy_slot(pool, fixture->stream, 0, 5), STATUS_INTERNAL, "slot 5 of 5");
    expect_refusal(state_pool_copy_page(pool, fixture->stream, 7, 0), STATUS_INTERNAL, "page 7 of 7");
    expect_refusal(state_pool_map_own_pages(pool, fixture->stream), STATUS_INTERNAL, "too few");
    check_memory(fixture);
}

static void pages_fit_the_ratios(void **state) {
    struct fixture *fixture = *state;
    struct state_pool pool;
    struct state_pool_options wrong = options;
    wrong.page_tokens = 64;
    expect_refusal(state_pool_init(&pool, fixture->device, &fixture->table, NUMERICS_NATIVE, &wrong),
                   STATUS_OUT_OF_RANGE, "multiple of 128");
    state_pool_deinit(&pool);
    struct state_kind third = {.name = "thirds", .layer = 9, .shape = STATE_APPEND, .ratio = 3, .width = 1};
    const struct state_table thirds = {.kinds = &third, .count = 1};
    expect_refusal(state_pool_init(&pool, fixture->device, &thirds, NUMERICS_NATIVE, &options),
                   STATUS_UNSUPPORTED, "layer 9 keeps a \"thirds\" row for every 3 tokens");
    state_pool_deinit(&pool);
}

/* Some slices of 2 MB and an odd rest, zeroed by all threads up to the last byte; the table stays. */
static void spread_zeroes_all_rows(void **state) {
    struct fixture *fixture = *state;
    struct worker_pool *workers;
    struct state_pool pool;
    struct state_kind kind = {.name = "entries", .shape = STATE_APPEND, .ratio = 1, .row = ROW_KIND_FLOAT};
    kind.width = 128;
    const struct state_table table = {.kinds = &kind, .count = 1};
    assert_int_equal(state_pool_init(&pool, fixture->device, &table, NUMERICS_NATIVE, &options), STATUS_OK);
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        assert_int_equal(worker_pool_create(threads, &workers), STATUS_OK);
        assert_int_equal(state_pool_alloc(&pool, 41), STATUS_OK);
        assert_true(pool.row_memory_bytes % (2 << 20) != 0);
        assert_int_equal(stream_fill(fixture->stream, pool.memory, 0xA5, pool.bytes), STATUS_OK);
        assert_int_equal(state_pool_spread(&pool, workers), STATUS_OK);
        unsigned char *bytes = malloc(pool.bytes);
        assert_non_null(bytes);
        assert_int_equal(stream_copy_to_host(fixture->stream, bytes, pool.memory, pool.bytes), STATUS_OK);
        assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
        for (size_t i = 0; i < pool.bytes; i++) {
            if (bytes[i] != (i < pool.row_memory_bytes ? 0 : 0xA5)) {
                fail_msg("byte %zu of %zu is %d", i, pool.bytes, bytes[i]);
            }
        }
        free(bytes);
        worker_pool_destroy(&workers);
        state_pool_deinit(&pool);
        assert_int_equal(state_pool_init(&pool, fixture->device, &table, NUMERICS_NATIVE, &options),
                         STATUS_OK);
    }
    state_pool_deinit(&pool);
}

#define ON_BOTH_DEVICES(test)                               \
    {#test " on cpu", test, set_up, tear_down, "cpu"}, {    \
#test " on guard", test, set_up, tear_down, "guard" \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH_DEVICES(sizes_follow_the_formula),
        ON_BOTH_DEVICES(rows_are_described_first),
        ON_BOTH_DEVICES(tables_and_draft_rings_are_defined),
        ON_BOTH_DEVICES(plans_are_carried_out),
        ON_BOTH_DEVICES(copies_between_sequences_are_whole),
        ON_BOTH_DEVICES(pages_and_snapshots_travel),
        ON_BOTH_DEVICES(own_pages_do_not_overlap),
        ON_BOTH_DEVICES(what_is_not_there_is_refused),
        ON_BOTH_DEVICES(pages_fit_the_ratios),
        ON_BOTH_DEVICES(spread_zeroes_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
