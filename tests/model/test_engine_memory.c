/*
 * The memory ledger: what an engine plans is what it takes, a step takes nothing more, closing gives all
 * back.
 *
 * The program is linked with its own malloc, calloc, realloc and aligned allocation in front of the C
 * library's; they count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

/* Calls of the allocation functions, and blocks that were not freed yet, from all threads. */
static atomic_size_t allocation_count;
static atomic_long live_blocks;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
void __wrap_free(void *block);

static void *count_block(void *block) {
    allocation_count++;
    live_blocks += block != NULL;
    return block;
}

void *__wrap_malloc(size_t bytes) {
    return count_block(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return count_block(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes) {
    live_blocks -= block != NULL;
    return count_block(__real_realloc(block, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return count_block(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes) {
    int result = __real_posix_memalign(out, alignment, bytes);
    count_block(result == 0 ? *out : NULL);
    return result;
}

void __wrap_free(void *block) {
    live_blocks -= block != NULL;
    __real_free(block);
}

struct fixture {
    char directory[FIXTURE_PATH_BYTES];  /* tiny-v4 */
    char draftless[FIXTURE_PATH_BYTES];  /* without MTP layer, in files and configuration */
    char incomplete[FIXTURE_PATH_BYTES]; /* one tensor is missing */
};

static int set_up(void **state) {
    const struct config_change no_draft_layer = {"num_nextn_predict_layers", "0"};
    const struct checkpoint_edit no_draft_tensors = {.left_out = "mtp.*"};
    const struct checkpoint_edit one_missing = {.left_out = "norm.weight"};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    fixture_make(fixture->draftless);
    fixture_make(fixture->incomplete);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    checkpoint_copy_edited(fixture->directory, fixture->draftless, &no_draft_tensors);
    model_replace_config(fixture->draftless, TINY_CONFIG, &no_draft_layer, 1);
    checkpoint_copy_edited(fixture->directory, fixture->incomplete, &one_missing);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    fixture_remove(fixture->directory);
    fixture_remove(fixture->draftless);
    fixture_remove(fixture->incomplete);
    free(fixture);
    return 0;
}

static int draft_state_count(const struct sluice_engine *engine) {
    int count = 0;
    for (int i = 0; i < engine->state_table.count; i++) {
        count += engine->state_table.kinds[i].is_draft;
    }
    return count;
}

/* Drafting that is off costs nothing: the same memory as of a model that has no MTP layer at all. */
static void test_drafting_off_costs_nothing(void **state) {
    const struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        options.numerics = (enum sluice_numerics)numerics;
        struct sluice_engine *off = model_open(&options);
        options.draft_limit = 3;
        struct sluice_engine *on = model_open(&options);
        options.draft_limit = 0;
        options.model_directory = fixture->draftless;
        struct sluice_engine *draftless = model_open(&options);
        assert_int_equal(draft_state_count(off), 0);
        assert_int_equal(draft_state_count(on), 1);
        assert_int_equal(off->state_table.count, draftless->state_table.count);
        assert_int_equal(off->facts.state_bytes, draftless->facts.state_bytes);
        assert_int_equal(off->facts.step_bytes, draftless->facts.step_bytes);
        assert_int_equal(off->facts.copied_bytes, draftless->facts.copied_bytes);
        assert_int_equal(off->facts.mapped_bytes, draftless->facts.mapped_bytes);
        assert_int_equal(device_memory_bytes(off->device), device_memory_bytes(draftless->device));
        assert_true(on->facts.state_bytes > off->facts.state_bytes);
        assert_true(on->facts.mapped_bytes > off->facts.mapped_bytes);
        sluice_engine_close(&off);
        sluice_engine_close(&on);
        sluice_engine_close(&draftless);
    }
}

/* State by the specification's sizes (spec 5.1): rows of FP8 with their bf16 tail, FP4 rows, float rows. */
static void test_state_bytes(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.context_tokens = 256;
    options.session_count = 3;
    struct sluice_engine *engine = model_open(&options);
    const size_t kv_row = 64 + 8 + 64 * 2; /* codes, one scale padded to 8, rotary channels */
    const size_t index_row = 64 + 4;
    size_t window = 16 * kv_row;
    size_t indexed = 8 * (4 * 128 + 4 * 128) * sizeof(float) + 64 * (kv_row + index_row);
    size_t plain_16 = 16 * 2 * 128 * sizeof(float) + 16 * kv_row;
    size_t plain_128 = 128 * 2 * 128 * sizeof(float) + 2 * kv_row;
    size_t expected = 3 * (6 * window + 3 * indexed + plain_16 + plain_128);
    assert_in_range(engine->facts.state_bytes, expected, expected + 64 * 64);
    sluice_engine_close(&engine);
}

/* The device holds weights, state and the memory of a step, before and after steps, and not a byte more. */
static void test_device_memory_is_planned(void **state) {
    const struct fixture *fixture = *state;
    static const char *const devices[] = {"cpu", "guard"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        int32_t tokens[64];
        options.device = devices[i];
        options.draft_limit = 2;
        struct sluice_engine *engine = model_open(&options);
        size_t planned = engine->facts.copied_bytes + engine->facts.state_bytes + engine->facts.step_bytes;
        assert_int_equal(device_memory_bytes(engine->device), planned);
        model_spec_tokens(tokens, 64);
        model_run(engine, 0, 0, tokens, 64, NULL);
        assert_int_equal(device_memory_bytes(engine->device), planned);
        sluice_engine_close(&engine);
    }
}

/* Steps of a session allocate nothing, on the device or the host: decode, choice, and a chunk. */
static void test_steps_allocate_nothing(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = model_options(fixture->directory);
    struct sluice_sampling sampling = sluice_sampling_default();
    struct sluice_session *session;
    struct sluice_log_probability chosen;
    struct sluice_log_probability top[5];
    int32_t tokens[100];
    options.thread_count = 2;
    sampling.frequency_penalty = 0.5;
    sampling.top_p = 0.9;
    struct sluice_engine *engine = model_open(&options);
    EXPECT_OK(sluice_session_create(engine, &session));
    model_spec_tokens(tokens, 100);
    EXPECT_OK(sluice_session_append(session, tokens, 100, NULL));
    size_t before = allocation_count;
    size_t device_before = device_memory_bytes(engine->device);
    for (int i = 0; i < 20; i++) {
        int32_t token;
        EXPECT_OK(sluice_session_choose(session, &sampling, &token));
        EXPECT_OK(sluice_session_log_probabilities(session, token, 5, &chosen, top));
        EXPECT_OK(sluice_session_append(session, &token, 1, NULL));
    }
    EXPECT_OK(sluice_session_append(session, tokens, 100, NULL));
    assert_int_equal(allocation_count, before);
    assert_int_equal(device_memory_bytes(engine->device), device_before);
    sluice_session_destroy(&session);
    sluice_engine_close(&engine);
    assert_true(allocation_count > 0);
}

/* What opening took is gone after closing, also where opening failed half-way. */
static void test_closing_gives_all_back(void **state) {
    const struct fixture *fixture = *state;
    static const char *const devices[] = {"cpu", "guard"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        struct sluice_engine *engine;
        struct sluice_session *session;
        int32_t token = 3;
        options.device = devices[i];
        options.draft_limit = 1;
        options.thread_count = 2;
        long before = live_blocks;
        engine = model_open(&options);
        assert_true(live_blocks > before);
        EXPECT_OK(sluice_session_create(engine, &session));
        EXPECT_OK(sluice_session_append(session, &token, 1, NULL));
        sluice_session_destroy(&session);
        sluice_engine_close(&engine);
        assert_null(engine);
        assert_int_equal(live_blocks, before);
        options.model_directory = fixture->incomplete;
        assert_int_equal(sluice_engine_open(&options, &engine), SLUICE_BAD_CHECKPOINT);
        assert_int_equal(live_blocks, before);
        options.model_directory = fixture->directory;
        options.draft_limit = 65;
        assert_int_equal(sluice_engine_open(&options, &engine), SLUICE_OUT_OF_RANGE);
        assert_int_equal(live_blocks, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafting_off_costs_nothing), cmocka_unit_test(test_state_bytes),
        cmocka_unit_test(test_device_memory_is_planned),   cmocka_unit_test(test_steps_allocate_nothing),
        cmocka_unit_test(test_closing_gives_all_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
