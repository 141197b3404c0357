/*
 * What ranks count of their time and of what they send, as the engine tells it: test_stage_stats MODEL_DIR.
 * By itself ranks are threads; by mpirun each process is one. The model is layout-v4.
 *
 * A stage's times add up to what steps took at least, and to what requests took at most; stages that have one
 * step between them never work at the same time; boundaries are as large as the specification says; a rest
 * does not count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sluice/request.h"
#include "support/job_fixture.h"
#include "support/model_fixture.h"

/* Spec parallelism P-14: S residual streams of H elements, two bytes each in native numerics (P-14a). */
enum { STREAMS = 4, HIDDEN = 256, BOUNDARY_ROW_BYTES = STREAMS * HIDDEN * 2 };

/* And A.1: in front of each step's rows. */
enum { HEADER_BYTES = 64 };

enum { PROMPT = 96, ANSWER = 100, TRIES = 4 };

enum { REST_NANOSECONDS = 100000000 };

/* Starts and ends of ranks' times differ by what records need on their way, on a busy machine. */
static const double SLACK_SECONDS = 0.05;

struct layout {
    int pipeline;
    int tensor;
};

static const char *directory;
static struct sluice_job *job; /* NULL: ranks are threads */
static int rank_count;         /* of the job */

static double seconds_of(const struct sluice_stage_stats *stage) {
    return stage->compute_seconds + stage->wait_seconds + stage->send_seconds;
}

static struct sluice_engine_options options_of(const struct layout *layout) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = directory;
    options.thread_count = 1;
    options.context_tokens = 256;
    options.sequence_limit = 8;
    options.step_token_limit = 64;
    options.parallel.job = job;
    options.parallel.pipeline = layout->pipeline;
    options.parallel.tensor = layout->tensor;
    options.parallel.row_sharing = SLUICE_ROW_SHARING_OFF;
    return options;
}

/* Runs `count` requests at once and returns the seconds until the last one's end. */
static double run_requests(struct sluice_engine *engine, int count) {
    struct sluice_request *requests[8];
    int32_t prompt[PROMPT];
    double began = clock_seconds();
    for (int i = 0; i < count; i++) {
        struct sluice_request_options options = sluice_request_options_default();
        model_random_tokens((uint64_t)i + 1, TINY_VOCABULARY, prompt, PROMPT);
        options.prompt = prompt;
        options.prompt_count = PROMPT;
        options.token_limit = ANSWER;
        options.sampling.temperature = 0.0;
        EXPECT_OK(sluice_engine_submit(engine, &options, &requests[i]));
    }
    for (int i = 0; i < count; i++) {
        struct sluice_request_state end = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, -1.0);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_LENGTH);
        sluice_request_release(&requests[i]);
    }
    return clock_seconds() - began;
}

/* Once the engine has nothing to do any more, all ranks have told everything. */
static struct sluice_engine_stats stats_at_rest(struct sluice_engine *engine) {
    nanosleep(&(struct timespec){.tv_nsec = REST_NANOSECONDS}, NULL);
    return sluice_engine_stats(engine);
}

static void expect_times(const struct sluice_engine_stats *stats, int pipeline, double wall) {
    for (int i = 0; i < pipeline; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        assert_true(stage->compute_seconds > 0.0 && stage->wait_seconds >= 0.0 && stage->send_seconds >= 0.0);
        assert_true(i < pipeline - 1 || stage->send_seconds == 0.0);
        double seconds = seconds_of(stage);
        if (seconds < 0.9 * stats->step_seconds - SLACK_SECONDS || seconds > wall + SLACK_SECONDS) {
            fail_msg("stage %d of %d counts %.4f s, but steps took %.4f s of %.4f s", i, pipeline, seconds,
                     stats->step_seconds, wall);
        }
    }
}

static void expect_bytes(const struct sluice_engine_stats *stats, const struct layout *layout) {
    for (int i = 0; i < layout->pipeline; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        bool is_last = i == layout->pipeline - 1;
        int64_t sent = stats->step_rows * BOUNDARY_ROW_BYTES + stats->steps * HEADER_BYTES;
        int64_t boundary = is_last ? 0 : sent * layout->tensor;
        assert_int_equal(stage->boundary_bytes, boundary);
        assert_true((stage->sum_bytes > 0) == (layout->tensor > 1));
        assert_true((stage->relay_bytes > 0) == (layout->tensor > 1));
        assert_true((stage->plan_bytes > 0) == (i > 0));
        assert_true((stage->feedback_bytes > 0) == (i > 0 || layout->tensor > 1));
    }
}

/* By how much all stages worked longer than the first one counts in all, from one look to the next. */
static double overlap_seconds(const struct sluice_engine_stats *before,
                              const struct sluice_engine_stats *after) {
    double busy = 0.0;
    for (int i = 0; i < after->stage_count; i++) {
        busy += after->stages[i].compute_seconds - before->stages[i].compute_seconds;
    }
    return busy - 1.2 * (seconds_of(&after->stages[0]) - seconds_of(&before->stages[0]));
}

/*
 * Of one request there is only one step at a time, on one stage or another. A rank that gets no core counts
 * that as work: the best of a few tries counts. Returns the seconds of all.
 */
static double run_alone(struct sluice_engine *engine, const struct layout *layout) {
    double wall = 0.0;
    double least = SLACK_SECONDS;
    for (int i = 0; i < TRIES && least >= SLACK_SECONDS; i++) {
        struct sluice_engine_stats before = stats_at_rest(engine);
        wall += run_requests(engine, 1);
        struct sluice_engine_stats alone = stats_at_rest(engine);
        expect_times(&alone, layout->pipeline, wall);
        double overlap = overlap_seconds(&before, &alone);
        least = overlap < least ? overlap : least;
    }
    assert_true(least < SLACK_SECONDS);
    return wall;
}

/*
 * Two replicas of two stages, which share experts: sums over both. Plans reach all stages by messages, for a
 * replica's leader is no rank of it.
 */
static void expect_replicas(void) {
    struct sluice_engine_options options = options_of(&(struct layout){.pipeline = 2, .tensor = 1});
    struct sluice_engine *engine;
    options.parallel.data = 2;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    run_requests(engine, 4);
    struct sluice_engine_stats stats = stats_at_rest(engine);
    assert_int_equal(stats.stage_count, 2);
    assert_int_equal(stats.finished_requests, 4);
    for (int i = 0; i < 2; i++) {
        const struct sluice_stage_stats *stage = &stats.stages[i];
        /* Ticks of a replica without rows are headers alone. */
        int64_t headers = stage->boundary_bytes - (i == 0 ? stats.step_rows * BOUNDARY_ROW_BYTES : 0);
        assert_int_equal(headers % HEADER_BYTES, 0);
        assert_true(i == 0 ? headers >= stats.steps * HEADER_BYTES : headers == 0);
        assert_true(stage->compute_seconds > 0.0 && stage->exchange_bytes + stage->gather_bytes > 0);
        assert_true(stage->plan_bytes > 0);
        assert_true(stage->feedback_bytes > 0);
    }
    sluice_engine_close(&engine);
}

static void expect_layout(const struct layout *layout) {
    struct sluice_engine_options options = options_of(layout);
    struct sluice_engine *engine;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    struct sluice_engine_stats before = stats_at_rest(engine);
    assert_int_equal(before.stage_count, layout->pipeline);
    assert_true(seconds_of(&before.stages[0]) == 0.0);
    double wall = run_alone(engine, layout);
    wall += run_requests(engine, 4);
    struct sluice_engine_stats all = stats_at_rest(engine);
    expect_times(&all, layout->pipeline, wall);
    expect_bytes(&all, layout);
    sluice_engine_close(&engine);
}

static void stages_count_their_time_and_bytes(void **state) {
    (void)state;
    static const struct layout layouts[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        int ranks = layouts[i].pipeline * layouts[i].tensor;
        if (job == NULL ? layouts[i].pipeline < 4 : ranks == rank_count) {
            expect_layout(&layouts[i]);
        }
    }
}

static void replicas_count_together(void **state) {
    (void)state;
    if (job == NULL || rank_count == 4) {
        expect_replicas();
    }
}

static int lead(void *context, struct sluice_job *joined) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages_count_their_time_and_bytes),
                                       cmocka_unit_test(replicas_count_together)};
    (void)context;
    job = joined;
    rank_count = job == NULL ? 0 : sluice_job_size(job);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argument_count, char **arguments) {
    directory = argument_count > 1 ? arguments[1] : "";
    return job_fixture_main(directory, 10, lead, NULL);
}
