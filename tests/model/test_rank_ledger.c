/*
 * Every rank has allocated what its ledger says, to the byte, before and after steps (spec parallelism T-14):
 * on layout-v4, over stages and tensor ranks, with drafts and without. The linker shows the cores of all
 * ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { RANKS_MAX = 8, ROWS = 40, REPLICAS = 2 };

static struct {
    struct engine_core *cores[RANKS_MAX];
    int count;
    size_t measuring_bytes; /* of the core that measured what stages take, and is no rank's; 0: none did */
} seen;

enum status __real_engine_core_alloc_states(struct engine_core *core, int32_t page_count);
enum status __wrap_engine_core_alloc_states(struct engine_core *core, int32_t page_count);

enum status __wrap_engine_core_alloc_states(struct engine_core *core, int32_t page_count) {
    enum status status = __real_engine_core_alloc_states(core, page_count);
    if (core->ranks == NULL) {
        seen.measuring_bytes = device_memory_bytes(core->device);
        return status;
    }
    assert_in_range(seen.count, 0, RANKS_MAX - 1);
    seen.cores[seen.count++] = core;
    return status;
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

/* What was measured before is gone by then, and was less than what the ranks have together. */
static void expect_small_measuring(int pipeline) {
    assert_true((seen.measuring_bytes > 0) == (pipeline > 1));
    assert_true(seen.measuring_bytes <= device_bytes_of(&seen.cores[0]->facts.memory));
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
        seen.measuring_bytes = 0;
        struct engine_core *leader = model_open(&options);
        assert_int_equal(seen.count, pipeline * tensor);
        expect_small_measuring(pipeline);
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
        expect_ledgers("replicas opened", 2, tensor);
        assert_int_equal(leaders[0]->facts.memory.token_capacity,
                         REPLICAS * seen.cores[2 * tensor]->facts.memory.token_capacity);
        assert_memory_equal(&leaders[0]->facts.memory, &seen.cores[0]->facts.memory,
                            sizeof leaders[0]->facts.memory);
        for (int i = 0; i < REPLICAS; i++) { /* they lead from outside: what they have is no rank's */
            assert_null(leaders[i]->device);
        }
        for (int i = 0; i < REPLICAS; i++) {
            engine_core_close(&leaders[i]);
        }
    }
}

/* Page bytes of the stage that has most of them, in a cut into two. */
static size_t largest_page_bytes(const struct sluice_engine_options *options, int *layer_count) {
    seen.count = 0;
    struct engine_core *leader = model_open(options);
    *layer_count = leader->facts.layer_count;
    size_t first = seen.cores[0]->states.page_bytes;
    size_t last = seen.cores[1]->states.page_bytes;
    engine_core_close(&leader);
    return first > last ? first : last;
}

/* P-38: of all cuts the one for state leaves the fullest stage least. */
static void a_cut_for_state_counts_pages(void **state) {
    struct sluice_engine_options options = model_options(*state);
    size_t least = SIZE_MAX;
    options.model_directory = SLUICE_SOURCE_DIR "/models/mini-v4"; /* there the fastest cut is another */
    options.parallel.pipeline = 2;
    options.parallel.objective = SLUICE_STAGES_FOR_STATE;
    int layer_count;
    size_t chosen = largest_page_bytes(&options, &layer_count);
    for (int cut = 1; cut < layer_count; cut++) {
        snprintf(options.parallel.layer_partition, sizeof options.parallel.layer_partition, "%d,%d", cut,
                 layer_count - cut);
        size_t largest = largest_page_bytes(&options, &layer_count);
        least = largest < least ? largest : least;
    }
    assert_int_equal(chosen, least);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_cut_for_state_counts_pages),
                                       cmocka_unit_test(every_rank_has_what_it_planned),
                                       cmocka_unit_test(replicas_have_what_they_planned)};
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
