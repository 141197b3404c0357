/*
 * Too little memory and clients that leave, on several ranks: test_pressure MODEL_DIR. By itself ranks are
 * threads; by mpirun each process is one. The model is layout-v4.
 *
 * Requests that push each other out, and read again what they had, give what they give alone on one rank with
 * room for all, token by token and, by their log-probabilities, logit by logit; beside them others are given
 * up while they read and while they write. Every page comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/request.h"
#include "support/job_fixture.h"
#include "support/model_fixture.h"

/* A request grows from one page of 128 tokens to three, and all of them at once to more than twice what there
 * is. */
enum { KEPT = 6, PROMPT = 20, ANSWER = 260, PAGES = 7, CONTEXT = 384 };

/* How many tokens of an answer are waited for before it is given up; 0: it may still be reading. */
static const size_t left_after[] = {0, 1, 20, 60};
enum { LEFT = sizeof left_after / sizeof *left_after };

struct layout {
    int replicas;
    int pipeline;
    int tensor;
    int drafts;
};

struct answer {
    int32_t tokens[ANSWER];
    struct sluice_log_probability chosen[ANSWER];
};

static const char *directory;
static struct sluice_job *job; /* NULL: ranks are threads */
static int rank_count;         /* of the job */
static struct answer alone[KEPT];

static struct sluice_engine_options options_of(const struct layout *layout) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = directory;
    options.thread_count = 1;
    options.context_tokens = CONTEXT;
    options.sequence_limit = KEPT + LEFT;
    options.step_token_limit = 64;
    options.draft.limit = layout->drafts;
    options.draft.is_adaptive = false;
    options.parallel.job = layout->replicas * layout->pipeline * layout->tensor == 1 ? NULL : job;
    options.parallel.data = layout->replicas;
    options.parallel.pipeline = layout->pipeline;
    options.parallel.tensor = layout->tensor;
    options.parallel.has_expert_parallelism = true;
    return options;
}

/* So much memory that each replica has PAGES pages or one less, by what an engine with more says it has. */
static uint64_t limit_bytes(const struct sluice_engine_options *options) {
    struct sluice_engine *engine;
    EXPECT_OK(sluice_engine_open(options, &engine));
    struct sluice_memory_ledger memory = sluice_engine_facts(engine).memory;
    int replicas = options->parallel.data;
    sluice_engine_close(&engine);
    return memory.copied_weight_bytes + memory.slot_state_bytes + memory.snapshot_bytes + memory.step_bytes +
           memory.host_bytes +
           PAGES * memory.page_state_bytes / ((uint64_t)memory.page_count / (uint64_t)replicas);
}

static struct sluice_request *submit(struct sluice_engine *engine, int number) {
    struct sluice_request_options options = sluice_request_options_default();
    struct sluice_request *request;
    int32_t prompt[PROMPT];
    model_random_tokens((uint64_t)number + 1, TINY_VOCABULARY, prompt, PROMPT);
    options.prompt = prompt;
    options.prompt_count = PROMPT;
    options.token_limit = ANSWER;
    options.sampling.temperature = number % 2 == 0 ? 0.0 : 0.8;
    options.sampling.seed = (uint64_t)number;
    options.log_probability_count = 1;
    EXPECT_OK(sluice_engine_submit(engine, &options, &request));
    return request;
}

static void collect(struct sluice_request *request, struct answer *out) {
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    if (end.finish_reason != SLUICE_FINISH_LENGTH) {
        fail_msg("a request ended early: %s", end.message);
    }
    assert_int_equal(end.token_count, ANSWER);
    for (size_t i = 0; i < ANSWER; i++) {
        struct sluice_log_probability top;
        out->tokens[i] = sluice_request_token(request, i);
        EXPECT_OK(sluice_request_log_probabilities(request, i, &out->chosen[i], &top));
    }
}

static void run_alone(void) {
    struct sluice_engine_options options = options_of(&(struct layout){1, 1, 1, 0});
    struct sluice_engine *engine;
    options.has_prefix_cache = false;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    for (int i = 0; i < KEPT; i++) {
        struct sluice_request *request = submit(engine, i);
        collect(request, &alone[i]);
        sluice_request_release(&request);
    }
    assert_int_equal(sluice_engine_stats(engine).preemptions, 0);
    sluice_engine_close(&engine);
}

static void give_up(struct sluice_request **requests) {
    for (int i = 0; i < LEFT; i++) {
        sluice_request_wait(requests[i], left_after[i], SIZE_MAX, -1.0);
        sluice_request_cancel(requests[i]);
        struct sluice_request_state end = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, -1.0);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_CANCELLED);
        assert_true(end.token_count >= left_after[i] && end.token_count < ANSWER);
        sluice_request_release(&requests[i]);
    }
}

/* Those that will be given up come first, so that others wait behind them for pages. */
static void run_tight(struct sluice_engine *engine, const struct layout *layout) {
    struct sluice_request *left[LEFT];
    struct sluice_request *kept[KEPT];
    for (int i = 0; i < LEFT; i++) {
        left[i] = submit(engine, KEPT + i);
    }
    for (int i = 0; i < KEPT; i++) {
        kept[i] = submit(engine, i);
    }
    give_up(left);
    for (int i = 0; i < KEPT; i++) {
        static struct answer answer;
        collect(kept[i], &answer);
        if (memcmp(&answer, &alone[i], sizeof answer) != 0) {
            fail_msg("dp %d, pp %d, tp %d, %d drafts: request %d differs from one rank's with room for all",
                     layout->replicas, layout->pipeline, layout->tensor, layout->drafts, i);
        }
        sluice_request_release(&kept[i]);
    }
}

static void expect_layout(const struct layout *layout) {
    struct sluice_engine_options options = options_of(layout);
    struct sluice_engine *engine;
    options.memory_limit_bytes = limit_bytes(&options);
    EXPECT_OK(sluice_engine_open(&options, &engine));
    int64_t pages = sluice_engine_facts(engine).memory.page_count;
    assert_in_range(pages, layout->replicas * (PAGES - 1), layout->replicas * PAGES);
    run_tight(engine, layout);
    struct sluice_engine_stats stats = sluice_engine_stats(engine);
    if (stats.preemptions == 0) {
        fail_msg("dp %d, pp %d, tp %d, %d drafts: no request was pushed out", layout->replicas,
                 layout->pipeline, layout->tensor, layout->drafts);
    }
    assert_int_equal(stats.finished_requests, KEPT + LEFT);
    assert_int_equal(stats.free_pages + stats.cached_pages, pages);
    sluice_engine_close(&engine);
}

static void requests_are_pushed_out_and_given_up(void **state) {
    (void)state;
    static const struct layout layouts[] = {{1, 2, 1, 2}, {1, 1, 2, 0}, {1, 2, 2, 0},
                                            {1, 2, 2, 2}, {1, 4, 1, 1}, {2, 2, 1, 2}};
    run_alone();
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        int ranks = layouts[i].replicas * layouts[i].pipeline * layouts[i].tensor;
        /* A choice: as processes all of them run, where that does not take minutes. */
        bool is_chosen = layouts[i].drafts == 2 && (!TESTS_ARE_SHORT || layouts[i].tensor == 2);
        bool is_for_job = ranks == rank_count && (!TESTS_ARE_SHORT || layouts[i].drafts == 2);
        if (job == NULL ? is_chosen : is_for_job) {
            expect_layout(&layouts[i]);
        }
    }
}

static int lead(void *context, struct sluice_job *joined) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_are_pushed_out_and_given_up)};
    (void)context;
    job = joined;
    rank_count = job == NULL ? 0 : sluice_job_size(job);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argument_count, char **arguments) {
    directory = argument_count > 1 ? arguments[1] : "";
    return job_fixture_main(directory, 10, lead, NULL);
}
