/*
 * Contexts that engines choose by what memory holds: the same limit has no room for a page more, by an engine
 * that is told its context, on one rank and on several.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/request.h"
#include "support/model_fixture.h"

enum { PAGE = 128, MODEL_LIMIT = 1 << 20, WANTED = 300 * PAGE };

struct layout {
    int replicas;
    int pipeline;
    int tensor;
};

static const struct layout layouts[] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static struct sluice_engine_options options_of(const struct layout *layout) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = layout_fixture_directory();
    options.thread_count = 1;
    options.step_token_limit = 32;
    options.sequence_limit = 2;
    options.parallel.data = layout->replicas;
    options.parallel.pipeline = layout->pipeline;
    options.parallel.tensor = layout->tensor;
    return options;
}

/* Status of opening and closing; the facts if it is OK. */
static enum status try_open(const struct sluice_engine_options *options, struct sluice_engine_facts *facts) {
    struct sluice_engine *engine;
    enum status status = (enum status)sluice_engine_open(options, &engine);
    if (status == STATUS_OK) {
        *facts = sluice_engine_facts(engine);
        sluice_engine_close(&engine);
    }
    return status;
}

/* Bytes that an engine with a context of WANTED tokens has without a prefix cache: one with two full
 * requests. */
static uint64_t bytes_for_wanted(struct sluice_engine_options options) {
    struct sluice_engine_facts facts;
    options.context_tokens = WANTED;
    EXPECT_OK(try_open(&options, &facts));
    const struct sluice_memory_ledger *memory = &facts.memory;
    return memory->copied_weight_bytes + memory->slot_state_bytes + memory->snapshot_bytes +
           memory->page_state_bytes + memory->step_bytes + memory->host_bytes;
}

static void no_longer_one_fits(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        struct sluice_engine_options options = options_of(&layouts[i]);
        struct sluice_engine_facts facts;
        options.memory_limit_bytes = bytes_for_wanted(options);
        options.context_tokens = SLUICE_CONTEXT_THAT_FITS;
        EXPECT_OK(try_open(&options, &facts));
        int64_t context = facts.context_tokens;
        assert_int_equal(context % PAGE, 0);
        assert_in_range(context, WANTED, MODEL_LIMIT - PAGE);
        assert_true(facts.memory.token_capacity >= context * layouts[i].replicas);
        options.context_tokens = context;
        EXPECT_OK(try_open(&options, &facts));
        options.context_tokens = context + PAGE;
        assert_int_equal(try_open(&options, &facts), STATUS_OUT_OF_MEMORY);
    }
}

/* Its requests run: a prompt of the whole context but one token. */
static void it_is_of_use(void **state) {
    (void)state;
    static int32_t prompt[WANTED];
    struct layout two = {1, 2, 1};
    struct sluice_engine_options options = options_of(&two);
    struct sluice_request_options wanted = sluice_request_options_default();
    struct sluice_engine *engine;
    struct sluice_request *request;
    options.context_tokens = 256; /* room for two such, and for as much again that is remembered */
    struct sluice_engine_facts facts;
    EXPECT_OK(try_open(&options, &facts));
    const struct sluice_memory_ledger *memory = &facts.memory;
    options.memory_limit_bytes = memory->copied_weight_bytes + memory->slot_state_bytes +
                                 memory->snapshot_bytes + memory->page_state_bytes + memory->step_bytes +
                                 memory->host_bytes;
    options.context_tokens = SLUICE_CONTEXT_THAT_FITS;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    size_t context = (size_t)sluice_engine_facts(engine).context_tokens;
    assert_in_range(context, 257, WANTED);
    model_random_tokens(1, TINY_VOCABULARY, prompt, (int)context);
    wanted.prompt = prompt;
    wanted.prompt_count = context;
    wanted.token_limit = 1;
    assert_int_equal(sluice_engine_submit(engine, &wanted, &request), SLUICE_CONTEXT_FULL);
    wanted.prompt_count = context - 1;
    EXPECT_OK(sluice_engine_submit(engine, &wanted, &request));
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    assert_int_equal(end.finish_reason, SLUICE_FINISH_LENGTH);
    assert_int_equal(end.token_count, 1);
    sluice_request_release(&request);
    sluice_engine_close(&engine);
}

/* As much as the model can do where there is room for that, and steps as long as they were to be. */
static void the_model_is_the_limit(void **state) {
    (void)state;
    struct sluice_engine_options options = options_of(&layouts[1]);
    struct sluice_engine_facts facts;
    options.has_prefix_cache = false;
    options.sequence_limit = 1;
    options.context_tokens = MODEL_LIMIT;
    EXPECT_OK(try_open(&options, &facts));
    size_t step_bytes = facts.memory.step_bytes;
    options.context_tokens = SLUICE_CONTEXT_THAT_FITS;
    EXPECT_OK(try_open(&options, &facts));
    assert_int_equal(facts.context_tokens, MODEL_LIMIT);
    assert_int_equal(facts.memory.step_bytes, step_bytes);
}

/* Not even a page: what lacks is said as for any other context. */
static void nothing_fits(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        struct sluice_engine_options options = options_of(&layouts[i]);
        struct sluice_engine_facts facts;
        options.context_tokens = SLUICE_CONTEXT_THAT_FITS;
        options.memory_limit_bytes = 1;
        assert_int_equal(try_open(&options, &facts), STATUS_OUT_OF_MEMORY);
        assert_non_null(strstr(error_last()->message, "one request of 128 tokens needs"));
        assert_non_null(strstr(error_last()->message, "--memory-limit"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_longer_one_fits),
        cmocka_unit_test(it_is_of_use),
        cmocka_unit_test(the_model_is_the_limit),
        cmocka_unit_test(nothing_fits),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
