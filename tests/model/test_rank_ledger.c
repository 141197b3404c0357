/*
 * Every rank has allocated what its ledger says, to the byte, before and after steps (spec parallelism T-14):
 * on layout-v4, over stages and tensor ranks, with drafts and without. The linker shows the cores of all
 * ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { RANKS_MAX = 8, ROWS = 40, REPLICAS = 2 };

static struct {
    struct engine_core *cores[RANKS_MAX];
    int count;
} seen;

enum status __real_engine_core_alloc_states(struct engine_core *core, int32_t page_count);
enum status __wrap_engine_core_alloc_states(struct engine_core *core, int32_t page_count);

enum status __wrap_engine_core_alloc_states(struct engine_core *core, int32_t page_count) {
    assert_in_range(seen.count, 0, RANKS_MAX - 1);
    seen.cores[seen.count++] = core;
    return __real_engine_core_alloc_states(core, page_count);
}

static size_t device_bytes_of(const struct sluice_memory_ledger *memory) {
    return memory->copied_weight_bytes + memory->slot_state_bytes + memory->snapshot_bytes +
           memory->page_state_bytes + memory->step_bytes;
}

/* The leader's core has the sum of all ledgers. */
static void expect_ledgers(const char *when, int pipeline, int tensor) {
    size_t of_others = 0;
    for (int i = 1; i < seen.count; i++) {
        size_t planned = device_bytes_of(&seen.cores[i]->facts.memory);
        of_others += planned;
        if (device_memory_bytes(seen.cores[i]->device) != planned) {
            fail_msg("pp %d, tp %d, %s: rank %d has %zu bytes and planned %zu", pipeline, tensor, when, i,
                     device_memory_bytes(seen.cores[i]->device), planned);
        }
    }
    assert_int_equal(device_memory_bytes(seen.cores[0]->device),
                     device_bytes_of(&seen.cores[0]->facts.memory) - of_others);
}

static void every_rank_has_what_it_planned(void **state) {
    static const int layouts[][2] = {{1, 2}, {2, 1}, {1, 4}, {2, 2}, {3, 1}, {4, 2}};
    for (size_t i = 0; i < 2 * sizeof layouts / sizeof layouts[0]; i++) {
        struct sluice_engine_options options = model_options(*state);
        int32_t tokens[ROWS];
        int pipeline = layouts[i / 2][0];
        int tensor = layouts[i / 2][1];
        options.draft.limit = i % 2 == 0 ? 0 : 2;
        options.parallel.pipeline = pipeline;
        options.parallel.tensor = tensor;
        seen.count = 0;
        struct engine_core *leader = model_open(&options);
        assert_int_equal(seen.count, pipeline * tensor);
        assert_ptr_equal(seen.cores[0], leader);
        expect_ledgers("opened", pipeline, tensor);
        model_spec_tokens(tokens, ROWS);
        model_run(leader, 0, 0, tokens, ROWS, NULL);
        expect_ledgers("after a step", pipeline, tensor);
        engine_core_close(&leader);
    }
}

/* The first replica's leader has the sum of all replicas' ledgers, and so do the engine's facts. */
static void replicas_have_what_they_planned(void **state) {
    for (int tensor = 1; tensor <= 2; tensor++) {
        struct sluice_engine_options options = model_options(*state);
        struct engine_core *leaders[REPLICAS];
        options.draft.limit = 2;
        options.parallel.data = REPLICAS;
        options.parallel.pipeline = 2;
        options.parallel.tensor = tensor;
        seen.count = 0;
        EXPECT_OK(engine_core_open_replicas(&options, leaders));
        assert_int_equal(seen.count, REPLICAS * 2 * tensor);
        assert_ptr_equal(seen.cores[0], leaders[0]);
        assert_ptr_equal(seen.cores[2 * tensor], leaders[1]);
        expect_ledgers("replicas opened", 2, tensor);
        assert_int_equal(leaders[0]->facts.memory.token_capacity,
                         REPLICAS * leaders[1]->facts.memory.token_capacity);
        for (int i = 0; i < REPLICAS; i++) {
            engine_core_close(&leaders[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_has_what_it_planned),
                                       cmocka_unit_test(replicas_have_what_they_planned)};
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
