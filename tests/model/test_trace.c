/*
 * The timeline of a pipeline, from its file: the stages of a tick follow one another (spec parallelism P-20),
 * and ticks of different groups are under way on different stages at once (P-25), unless one tick at a time
 * was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/tick_trace.h"
#include "lib/json.h"
#include "sluice/request.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { STAGES = 3, REQUESTS = 6, PROMPT = 40, ANSWER = 16, TICKS_MAX = 1024, FILE_BYTES_MAX = 16 << 20 };

struct span {
    double began; /* 0: there is none */
    double ended;
    int group;
    int rows;
};

struct timeline {
    struct span steps[STAGES][TICKS_MAX];
    int tick_count;
    int counts[16]; /* by position in kind_names */
};

static const char *const kind_names[] = {"plan", "receive-wait", "step",          "send-wait",
                                         "send", "choose",       "feedback-wait", "draft"};
enum { KINDS = sizeof kind_names / sizeof kind_names[0] };

static void run_requests(struct sluice_engine *engine) {
    struct sluice_request *requests[REQUESTS];
    int32_t prompt[PROMPT];
    model_random_tokens(5, 512, prompt, PROMPT);
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_options options = sluice_request_options_default();
        options.prompt = prompt;
        options.prompt_count = PROMPT;
        options.token_limit = ANSWER;
        options.sampling.temperature = 0.0;
        EXPECT_OK(sluice_engine_submit(engine, &options, &requests[i]));
    }
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_state end = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, -1.0);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_LENGTH);
        sluice_request_release(&requests[i]);
    }
}

static int64_t argument(const struct json *event, const char *name) {
    const struct json *value = json_get(json_get(event, "args"), name);
    assert_int_equal(json_kind(value), JSON_KIND_INTEGER);
    return json_int64(value);
}

static void read_event(const struct json *event, struct timeline *out) {
    const char *name = json_text(json_get(event, "name"), NULL);
    int kind = 0;
    if (strcmp(json_text(json_get(event, "ph"), NULL), "M") == 0) {
        return;
    }
    while (kind < KINDS && strcmp(kind_names[kind], name) != 0) {
        kind++;
    }
    assert_true(kind < KINDS);
    out->counts[kind]++;
    int64_t rank = json_int64(json_get(event, "tid"));
    int64_t tick = argument(event, "tick");
    double began = json_number(json_get(event, "ts"));
    double duration = json_number(json_get(event, "dur"));
    assert_true(duration >= 0.0);
    assert_in_range(rank, 0, STAGES - 1);
    assert_in_range(tick, 0, TICKS_MAX - 1);
    if (strcmp(name, "step") == 0) {
        struct span *step = &out->steps[rank][tick];
        assert_true(step->began == 0.0);
        *step = (struct span){began, began + duration, (int)argument(event, "group"),
                              (int)argument(event, "rows")};
        out->tick_count = tick >= out->tick_count ? (int)tick + 1 : out->tick_count;
    }
}

static void read_timeline(const char *path, struct timeline *out) {
    struct json *file;
    memset(out, 0, sizeof *out);
    EXPECT_OK(json_parse_file(path, FILE_BYTES_MAX, &file));
    const struct json *events = json_get(file, "traceEvents");
    for (size_t i = 0; i < json_length(events); i++) {
        read_event(json_at(events, i), out);
    }
    json_free(&file);
}

static void run_traced(int stages, int in_flight, int drafts, struct timeline *out) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    char path[2 * FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/trace.json", layout_fixture_directory());
    options.model_directory = layout_fixture_directory();
    options.thread_count = 2;
    options.context_tokens = 256;
    options.sequence_limit = REQUESTS;
    options.step_token_limit = 16;
    options.draft.limit = drafts;
    options.draft.is_adaptive = false;
    options.trace_path = path;
    options.parallel.pipeline = stages;
    options.parallel.in_flight = in_flight;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    run_requests(engine);
    sluice_engine_close(&engine);
    read_timeline(path, out);
}

/* Microseconds are written with three decimals. */
static bool is_not_before(double later, double earlier) {
    return later >= earlier - 0.002;
}

static void expect_order(const struct timeline *timeline) {
    assert_in_range(timeline->tick_count, ANSWER, TICKS_MAX);
    for (int tick = 0; tick < timeline->tick_count; tick++) {
        for (int stage = 0; stage < STAGES; stage++) {
            const struct span *step = &timeline->steps[stage][tick];
            const struct span *before = stage == 0 ? step : &timeline->steps[stage - 1][tick];
            assert_true(step->began > 0.0 && step->rows > 0);
            assert_int_equal(step->group, timeline->steps[0][tick].group);
            assert_int_equal(step->rows, timeline->steps[0][tick].rows);
            assert_true(stage == 0 || is_not_before(step->began, before->ended));
            assert_true(tick == 0 || is_not_before(step->began, timeline->steps[stage][tick - 1].ended));
        }
    }
}

/* Pairs of ticks of different groups that were computed on different stages at the same time. */
static int count_overlaps(const struct timeline *timeline) {
    int count = 0;
    for (int tick = 0; tick + 1 < timeline->tick_count; tick++) {
        const struct span *early = &timeline->steps[STAGES - 1][tick];
        const struct span *late = &timeline->steps[0][tick + 1];
        bool is_overlap = late->began < early->ended;
        count += is_overlap && late->group != early->group;
    }
    return count;
}

static void stages_follow_and_groups_overlap(void **state) {
    (void)state;
    static struct timeline timeline;
    run_traced(STAGES, 0, 0, &timeline);
    expect_order(&timeline);
    assert_true(count_overlaps(&timeline) > 0);
    /* One of each a tick; boundaries come in on all stages but the first and leave on all but the last. */
    static const int per_tick[KINDS] = {1, STAGES - 1, STAGES, STAGES - 1, STAGES - 1, 1, 1, 0};
    for (int kind = 0; kind < KINDS; kind++) {
        assert_int_equal(timeline.counts[kind], per_tick[kind] * timeline.tick_count);
    }
}

static void one_tick_at_a_time_has_no_overlap(void **state) {
    (void)state;
    static struct timeline timeline;
    run_traced(STAGES, 1, 1, &timeline);
    expect_order(&timeline);
    for (int tick = 0; tick + 1 < timeline.tick_count; tick++) {
        assert_true(is_not_before(timeline.steps[0][tick + 1].began, timeline.steps[STAGES - 1][tick].ended));
    }
    assert_true(timeline.counts[KINDS - 1] > 0);
}

static void one_rank_has_one_track(void **state) {
    (void)state;
    static struct timeline timeline;
    run_traced(1, 0, 0, &timeline);
    assert_true(timeline.tick_count > ANSWER);
    assert_true(timeline.steps[1][0].began == 0.0);
}

/* The ring keeps the last events. */
static void long_runs_keep_their_end(void **state) {
    (void)state;
    static struct timeline timeline;
    char path[2 * FIXTURE_PATH_BYTES];
    struct tick_trace *trace;
    snprintf(path, sizeof path, "%s/ring.json", layout_fixture_directory());
    EXPECT_OK(tick_trace_create(&(struct trace_place){.rank = 2, .stage = 1}, 4, &trace));
    for (uint64_t tick = 0; tick < 10; tick++) {
        tick_trace_set_tick(trace, (struct trace_tick){.number = tick, .group = 1, .rows = 3});
        tick_trace_add(trace, TRACE_STEP, tick_trace_now(trace));
    }
    EXPECT_OK(tick_trace_write(path, &trace, 1));
    tick_trace_destroy(&trace);
    read_timeline(path, &timeline);
    for (int tick = 0; tick < 10; tick++) {
        assert_int_equal(timeline.steps[2][tick].began > 0.0, tick >= 6);
        assert_int_equal(timeline.steps[2][tick].rows, tick >= 6 ? 3 : 0);
    }
}

static void a_path_that_cannot_be_written_to_is_told_at_once(void **state) {
    (void)state;
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = layout_fixture_directory();
    options.trace_path = "/nonexistent/trace.json";
    for (int stages = 1; stages <= 2; stages++) {
        options.parallel.pipeline = stages;
        assert_int_equal(sluice_engine_open(&options, &engine), SLUICE_IO);
        assert_non_null(strstr(sluice_last_error(), "/nonexistent/trace.json"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_follow_and_groups_overlap),
        cmocka_unit_test(one_tick_at_a_time_has_no_overlap),
        cmocka_unit_test(one_rank_has_one_track),
        cmocka_unit_test(long_runs_keep_their_end),
        cmocka_unit_test(a_path_that_cannot_be_written_to_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
