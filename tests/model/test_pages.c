/*
 * Pages and snapshots under a whole model: two sequences that share the pages of a common prefix, in pages of
 * no order, give the bits of sequences that share nothing; so do pages and snapshots that came back from host
 * memory. Nothing touches a page that is in no table of the step, or changes a shared one.
 *
 * All rows are NaN before anything runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "support/state_digest.h"
#include "weights/fixture.h"

enum {
    PAGE_TOKENS = 128,
    LENGTH = TESTS_ARE_SHORT ? 290 : 423, /* no multiple of any ratio */
    CONTEXT = 512,
    PAGES_PER_SLOT = CONTEXT / PAGE_TOKENS,
    PAGES = 11,
    SEQUENCES = 2,
    SNAPSHOT = SEQUENCES, /* the slot */
    CHUNK = 50,
    ROWS_MAX = SEQUENCES * CHUNK,
};

/* Two sequences, and what they give when each is alone in pages of its own. */
struct reference {
    int32_t tokens[SEQUENCES][LENGTH];
    float logits[SEQUENCES][LENGTH][TINY_VOCABULARY];
    struct state_digest digests[SEQUENCES];
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    struct engine_core *engine; /* opened anew for each test */
    struct engine_core paged;   /* the same with pool and executor of its own */
    struct reference reference;
    int32_t done[SEQUENCES];
    float logits[ROWS_MAX][TINY_VOCABULARY];
    unsigned char *kept[PAGES]; /* pages as they were */
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

static void make_paged(struct fixture *fixture) {
    struct engine_core *paged = &fixture->paged;
    const struct state_pool_options pool = {.sequence_slot_count = SEQUENCES,
                                            .snapshot_slot_count = 1,
                                            .context_tokens = CONTEXT,
                                            .page_tokens = PAGE_TOKENS};
    *paged = *fixture->engine;
    EXPECT_OK(state_pool_init(&paged->states, paged->device, &paged->state_table,
                              (enum numerics)paged->options.numerics, &pool));
    struct executor_options options = {
        .model = paged->model,
        .backend = paged->backend,
        .device = paged->device,
        .stream = paged->stream,
        .pool = paged->pool,
        .states = &paged->states,
        .numerics = (enum numerics)paged->options.numerics,
        .cpu_features = "auto",
        .row_limit = ROWS_MAX,
        .segment_limit = SEQUENCES,
        .logit_row_limit = 16,
    };
    EXPECT_OK(executor_create(&options, &paged->executor));
    EXPECT_OK(state_pool_alloc(&paged->states, PAGES));
    EXPECT_OK(stream_fill(paged->stream, paged->states.memory, 0xFF, paged->states.row_memory_bytes));
    memset(fixture->done, 0, sizeof fixture->done);
}

/* Opens the engines and runs both sequences, equal up to `prefix`, each alone. */
static void start(struct fixture *fixture, int numerics, const char *device, int32_t prefix) {
    struct reference *reference = &fixture->reference;
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = (enum sluice_numerics)numerics;
    options.device = device;
    options.sequence_limit = SEQUENCES;
    options.context_tokens = CONTEXT;
    fixture->engine = model_open(&options);
    model_spec_tokens(reference->tokens[0], LENGTH);
    memcpy(reference->tokens[1], reference->tokens[0], sizeof reference->tokens[0]);
    for (int32_t i = prefix; i < LENGTH; i++) {
        reference->tokens[1][i] = (reference->tokens[0][i] + 1 + i % 50) % TINY_VOCABULARY;
    }
    for (int32_t s = 0; s < SEQUENCES; s++) {
        model_run(fixture->engine, s, 0, reference->tokens[s], LENGTH, reference->logits[s][0]);
        state_digest_take(fixture->engine, s, LENGTH, &reference->digests[s]);
    }
    assert_memory_not_equal(reference->logits[0][prefix], reference->logits[1][prefix],
                            sizeof reference->logits[0][prefix]);
    make_paged(fixture);
}

static void finish(struct fixture *fixture) {
    for (int i = 0; i < PAGES; i++) {
        free(fixture->kept[i]);
        fixture->kept[i] = NULL;
    }
    executor_destroy(&fixture->paged.executor);
    state_pool_deinit(&fixture->paged.states);
    engine_core_close(&fixture->engine);
}

/* The page tables that the sequences work up to: they share as many pages as the prefix has. */
static const int32_t own_pages[SEQUENCES][PAGES_PER_SLOT] = {{7, 2, 9, 0}, {1, 10, 4, 6}};

static int32_t page_of(int32_t sequence, int32_t index, int32_t prefix) {
    return own_pages[index < prefix / PAGE_TOKENS ? 0 : sequence][index];
}

/*
 * One step of up to CHUNK rows of each listed sequence, up to `end`. Pages that the rows start are put into
 * the tables by the step; `changes` is what the plan does besides.
 */
static void run_step(struct fixture *fixture, int32_t first_sequence, int32_t sequence_count, int32_t end,
                     int32_t prefix, const struct step_plan *changes) {
    struct step_segment segments[SEQUENCES];
    struct step_page_update updates[SEQUENCES * PAGES_PER_SLOT];
    int32_t rows[ROWS_MAX];
    struct step_plan plan = *changes;
    int32_t row_count = 0;
    plan.segments = segments;
    plan.page_updates = updates;
    plan.logit_rows = rows;
    for (int32_t i = 0; i < changes->page_update_count; i++) {
        updates[i] = changes->page_updates[i];
    }
    for (int32_t s = first_sequence; s < first_sequence + sequence_count; s++) {
        int32_t first = fixture->done[s];
        int32_t count = end - first < CHUNK ? end - first : CHUNK;
        segments[plan.segment_count++] =
            (struct step_segment){s, first, count, fixture->reference.tokens[s] + first};
        for (int32_t p = first; p < first + count; p++, row_count++) {
            rows[row_count] = row_count;
            if (p % PAGE_TOKENS == 0) {
                updates[plan.page_update_count++] =
                    (struct step_page_update){s, p / PAGE_TOKENS, page_of(s, p / PAGE_TOKENS, prefix)};
            }
        }
    }
    plan.logit_row_count = row_count;
    EXPECT_OK(executor_run(fixture->paged.executor, &plan, fixture->logits[0]));
    row_count = 0;
    for (int32_t s = first_sequence; s < first_sequence + sequence_count; s++) {
        int32_t count = end - fixture->done[s] < CHUNK ? end - fixture->done[s] : CHUNK;
        char what[64];
        snprintf(what, sizeof what, "sequence %d from position %d", s, fixture->done[s]);
        model_expect_same_logits(fixture->logits[row_count], fixture->reference.logits[s][fixture->done[s]],
                                 count, TINY_VOCABULARY, what);
        row_count += count;
        fixture->done[s] += count;
    }
}

static const struct step_plan nothing_else = {0};

static void run_to(struct fixture *fixture, int32_t first_sequence, int32_t sequence_count, int32_t end,
                   int32_t prefix) {
    while (fixture->done[first_sequence] < end) {
        run_step(fixture, first_sequence, sequence_count, end, prefix, &nothing_else);
    }
}

static unsigned char *read_page(const struct fixture *fixture, int32_t page) {
    const struct state_pool *pool = &fixture->paged.states;
    unsigned char *bytes = malloc(pool->page_bytes);
    assert_non_null(bytes);
    EXPECT_OK(state_pool_read_page(pool, fixture->paged.stream, page, bytes));
    EXPECT_OK(stream_synchronize(fixture->paged.stream));
    return bytes;
}

/* Pages of the prefix, and those that no table names, are what they were. */
static void expect_untouched(const struct fixture *fixture, int32_t prefix) {
    size_t bytes = fixture->paged.states.page_bytes;
    bool is_named[PAGES] = {false};
    for (int i = 0; i < SEQUENCES * PAGES_PER_SLOT; i++) {
        int32_t page = fixture->paged.states.page_table[i];
        if (page >= 0) {
            is_named[page] = true;
        }
    }
    for (int32_t i = 0; i < prefix / PAGE_TOKENS; i++) {
        is_named[own_pages[0][i]] = false;
    }
    for (int32_t page = 0; page < PAGES; page++) {
        unsigned char *now = read_page(fixture, page);
        bool is_same = memcmp(now, fixture->kept[page], bytes) == 0;
        free(now);
        if (is_same == is_named[page]) {
            fail_msg("page %d was %s", page, is_same ? "not written" : "written");
        }
    }
}

/* The first sequence computes the prefix; the second one starts behind it, from a snapshot and shared pages.
 */
static void share(struct fixture *fixture, int numerics, const char *device, int32_t prefix) {
    struct step_page_update shared[PAGES_PER_SLOT];
    const struct step_slot_operation copies[] = {{STEP_SLOT_COPY, 0, SNAPSHOT},
                                                 {STEP_SLOT_COPY, SNAPSHOT, 1}};
    struct step_plan changes = {.page_updates = shared, .slot_operations = copies, .slot_operation_count = 2};
    start(fixture, numerics, device, prefix);
    run_to(fixture, 0, 1, prefix, prefix);
    for (int32_t page = 0; page < PAGES; page++) {
        fixture->kept[page] = read_page(fixture, page);
    }
    for (int32_t i = 0; i < prefix / PAGE_TOKENS; i++) {
        shared[changes.page_update_count++] = (struct step_page_update){1, i, own_pages[0][i]};
    }
    fixture->done[1] = prefix;
    run_step(fixture, 0, SEQUENCES, LENGTH, prefix, &changes);
    run_to(fixture, 0, SEQUENCES, LENGTH, prefix);
    expect_untouched(fixture, prefix);
    for (int32_t s = 0; s < SEQUENCES; s++) {
        struct state_digest digest;
        state_digest_take(&fixture->paged, s, LENGTH, &digest);
        state_digest_expect_equal(&fixture->paged, &digest, &fixture->reference.digests[s], "shared");
    }
    finish(fixture);
}

static void test_prefixes_are_shared(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        share(*state, numerics, "cpu", PAGE_TOKENS);
        share(*state, numerics, "cpu", 2 * PAGE_TOKENS);
    }
    share(*state, NUMERICS_NATIVE, "guard", 2 * PAGE_TOKENS);
}

/* Snapshot and pages leave for host memory, all rows are destroyed, and both come back elsewhere. */
static void travel(struct fixture *fixture, int numerics, int32_t prefix) {
    static const int32_t new_pages[PAGES_PER_SLOT] = {5, 3};
    start(fixture, numerics, "cpu", prefix);
    struct engine_core *paged = &fixture->paged;
    struct step_page_update updates[PAGES_PER_SLOT];
    struct step_plan changes = {.page_updates = updates};
    unsigned char *slot = malloc(paged->states.snapshot_bytes);
    assert_non_null(slot);
    run_to(fixture, 0, 1, prefix, prefix);
    EXPECT_OK(state_pool_copy_slot(&paged->states, paged->stream, 0, SNAPSHOT));
    EXPECT_OK(state_pool_read_slot(&paged->states, paged->stream, SNAPSHOT, slot));
    for (int32_t i = 0; i < prefix / PAGE_TOKENS; i++) {
        fixture->kept[i] = read_page(fixture, own_pages[0][i]);
        updates[changes.page_update_count++] = (struct step_page_update){1, i, new_pages[i]};
    }
    EXPECT_OK(stream_fill(paged->stream, paged->states.memory, 0xFF, paged->states.row_memory_bytes));
    for (int32_t i = 0; i < prefix / PAGE_TOKENS; i++) {
        EXPECT_OK(state_pool_write_page(&paged->states, paged->stream, new_pages[i], fixture->kept[i]));
    }
    EXPECT_OK(state_pool_write_slot(&paged->states, paged->stream, 1, slot));
    EXPECT_OK(stream_synchronize(paged->stream));
    fixture->done[1] = prefix;
    run_step(fixture, 1, 1, LENGTH, prefix, &changes);
    run_to(fixture, 1, 1, LENGTH, prefix);
    free(slot);
    finish(fixture);
}

static void test_pages_and_snapshots_travel(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        travel(*state, numerics, PAGE_TOKENS);
        travel(*state, numerics, 2 * PAGE_TOKENS);
    }
}

/* A snapshot of tiny-v4 needs no raw rows of its layers with one entry per 16 and per 128 tokens. */
static void test_snapshots_leave_out_empty_rings(void **state) {
    struct fixture *fixture = *state;
    start(fixture, NUMERICS_NATIVE, "cpu", PAGE_TOKENS);
    const struct state_pool *pool = &fixture->paged.states;
    const size_t raw = 2 * 128 * sizeof(float);
    assert_int_equal(pool->slot_bytes - pool->snapshot_bytes, (16 + 128) * raw);
    finish(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes_are_shared),
        cmocka_unit_test(test_pages_and_snapshots_travel),
        cmocka_unit_test(test_snapshots_leave_out_empty_rings),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
