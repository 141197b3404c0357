/*
 * A rank that is a thread and hangs (spec parallelism D-5, F-1 to F-3): within the deadline its requests end
 * with a sentence that names it, the engine is lost, and closing it does not wait. Where the rank is the one
 * that shows what requests got, the engine is lost all the same.
 *
 * The linker puts this file's function in front of the executor's (CMakeLists.txt).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "engine/executor_internal.h"
#include "support/model_fixture.h"
#include "support/random_requests.h"

enum { PROMPT = 1, TOKENS_BEFORE = 14 /* the first ticks have a longer deadline */ };

static const double deadline_seconds = 1.0; /* a busy machine may not run a thread for a moment */
static const double patience_seconds = 20;

static atomic_int victim = -1; /* rank that hangs in its next step; -1: none */
static atomic_bool is_held;    /* it does */

enum status __real_executor_step(struct executor *executor, const struct step_plan *plan, float *logits);
enum status __wrap_executor_step(struct executor *executor, const struct step_plan *plan, float *logits);

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

enum status __wrap_executor_step(struct executor *executor, const struct step_plan *plan, float *logits) {
    const struct executor_ranks *ranks = executor->options.ranks;
    if (ranks != NULL && ranks->number == victim) {
        is_held = true;
        while (victim >= 0) {
            nap();
        }
        is_held = false;
    }
    return __real_executor_step(executor, plan, logits);
}

static struct sluice_engine *open_engine(int replicas, int pipeline, int tensor) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = layout_fixture_directory();
    options.thread_count = 1;
    options.context_tokens = RANDOM_CONTEXT;
    options.sequence_limit = 3;
    options.step_token_limit = 11;
    options.parallel.data = replicas;
    options.parallel.pipeline = pipeline;
    options.parallel.tensor = tensor;
    options.parallel.deadline_seconds = deadline_seconds;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

/* A request in the middle of its answer, of which `rank` hangs. */
static struct sluice_request *hang(struct sluice_engine *engine, int rank) {
    struct sluice_request *request = random_requests_submit(engine, PROMPT, random_requests_limit(PROMPT));
    sluice_request_wait(request, TOKENS_BEFORE, SIZE_MAX, patience_seconds);
    victim = rank;
    return request;
}

static void wait_until_lost(const struct sluice_engine *engine) {
    double until = clock_seconds() + patience_seconds;
    while (!sluice_engine_is_lost(engine)) {
        assert_true(clock_seconds() < until);
        nap();
    }
}

/* The rank comes back after all. */
static void release_victim(void) {
    victim = -1;
    while (is_held) {
        nap();
    }
}

static void its_requests_end_and_name_it(void **state) {
    static const struct {
        int replicas;
        int pipeline;
        int tensor;
        int victim;
        const char *place;
    } cases[] = {{1, 2, 1, 1, "rank 1 of 2 (stage 1 of 2, tick "},
                 {1, 1, 2, 1, "rank 1 of 2 (stage 0 of 1, tick "},
                 {2, 2, 1, 0, "rank 0 of 4 (replica 0 of 2, stage 0 of 2, tick "},
                 {2, 2, 1, 3, "rank 3 of 4 (replica 1 of 2, stage 1 of 2, tick "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sluice_engine *engine = open_engine(cases[i].replicas, cases[i].pipeline, cases[i].tensor);
        struct sluice_request *request = hang(engine, cases[i].victim);
        struct sluice_request_state end = random_requests_wait(request);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_ERROR);
        assert_int_equal(end.status, SLUICE_PEER_LOST);
        if (strstr(end.message, cases[i].place) == NULL || strstr(end.message, "it hangs") == NULL) {
            fail_msg("<%s> does not name %s", end.message, cases[i].place);
        }
        wait_until_lost(engine);
        sluice_request_release(&request);
        /* Under a sanitizer what stays in memory would be an error. */
        if (TESTS_ARE_SHORT) {
            release_victim();
        }
        double began = clock_seconds();
        sluice_engine_close(&engine);
        assert_true(clock_seconds() - began < patience_seconds / 2);
        release_victim();
    }
}

/* The first rank leads where there is one replica: nobody can end its requests for it. */
static void a_leader_that_hangs_is_lost(void **state) {
    (void)state;
    struct sluice_engine *engine = open_engine(1, 2, 1);
    struct sluice_request *request = hang(engine, 0);
    wait_until_lost(engine);
    release_victim();
    struct sluice_request_state end = random_requests_wait(request);
    assert_int_equal(end.status, SLUICE_PEER_LOST);
    assert_non_null(strstr(end.message, "rank 0 of 2 (stage 0 of 2, tick "));
    sluice_request_release(&request);
    sluice_engine_close(&engine);
}

static int set_up(void **state) {
    layout_fixture_set_up(state);
    struct sluice_engine *engine = open_engine(1, 1, 1);
    random_requests_learn(engine);
    sluice_engine_close(&engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_requests_end_and_name_it),
        cmocka_unit_test(a_leader_that_hangs_is_lost),
    };
    return cmocka_run_group_tests(tests, set_up, layout_fixture_tear_down);
}
