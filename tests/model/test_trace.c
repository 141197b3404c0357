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

#include "engine/rank_timeline.h"
#include "engine/trace_file.h"
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
    double awaited[STAGES][TICKS_MAX + 1]; /* when a stage was ready to receive each tick's boundary */
    int await_counts[STAGES];
    int tick_count;
    int counts[16]; /* by position in kind_names */
};

static const char *const kind_names[] = {"plan",   "receive-wait",  "step",  "send-wait", "send",
                                         "choose", "feedback-wait", "await", "draft"};
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
    if (strcmp(name, "await") == 0) {
        assert_true(out->await_counts[rank] <= TICKS_MAX);
        out->awaited[rank][out->await_counts[rank]++] = began + duration;
    }
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

/* A stage is ready for the boundary of a tick before it computes the one before (P-20, P-21). */
static void expect_early_receives(const struct timeline *timeline) {
    assert_int_equal(timeline->await_counts[0], 0);
    for (int stage = 1; stage < STAGES; stage++) {
        assert_int_equal(timeline->await_counts[stage], timeline->tick_count + 1);
        for (int tick = 0; tick < timeline->tick_count; tick++) {
            assert_true(
                is_not_before(timeline->steps[stage][tick].began, timeline->awaited[stage][tick + 1]));
            assert_true(tick == 0 || is_not_before(timeline->awaited[stage][tick + 1],
                                                   timeline->steps[stage][tick - 1].ended));
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
    expect_early_receives(&timeline);
    assert_true(count_overlaps(&timeline) > 0);
    /* One of each a tick; boundaries come in on all stages but the first and leave on all but the last. */
    static const int per_tick[KINDS] = {1, STAGES - 1, STAGES, STAGES - 1, STAGES - 1, 1, 1, STAGES - 1, 0};
    static const int more[KINDS] = {0, 0, 0, 0, 0, 0, 0, STAGES - 1, 0}; /* for a tick that does not come */
    for (int kind = 0; kind < KINDS; kind++) {
        assert_int_equal(timeline.counts[kind], per_tick[kind] * timeline.tick_count + more[kind]);
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
    EXPECT_OK(trace_file_prepare(path, false));
    rank_timeline_write(path, &trace, 1);
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

/* Bytes that a step's events take in a ring: 131072 of 48 bytes. */
enum { RING_BYTES = 131072 * 48 };

/* Memory of a trace is planned as all other memory. */
static void rings_are_in_the_ledger(void **state) {
    (void)state;
    char path[2 * FIXTURE_PATH_BYTES];
    size_t host_bytes[2];
    snprintf(path, sizeof path, "%s/ledger.json", layout_fixture_directory());
    for (int stages = 1; stages <= 2; stages++) {
        for (int is_traced = 0; is_traced < 2; is_traced++) {
            struct sluice_engine_options options = model_options(layout_fixture_directory());
            options.parallel.pipeline = stages;
            options.trace_path = is_traced ? path : NULL;
            struct engine_core *core = model_open(&options);
            host_bytes[is_traced] = core->facts.memory.host_bytes;
            engine_core_close(&core);
        }
        size_t piece_bytes = stages > 1 ? 4096 * 48 : 0; /* of another rank, on its way to the file */
        assert_int_equal(host_bytes[1] - host_bytes[0], (size_t)stages * RING_BYTES + piece_bytes);
    }
}

struct process_count {
    int processes;
    int events[8]; /* by process */
};

static void count_processes(const char *path, struct process_count *out) {
    struct json *file;
    *out = (struct process_count){0};
    EXPECT_OK(json_parse_file(path, FILE_BYTES_MAX, &file));
    const struct json *events = json_get(file, "traceEvents");
    for (size_t i = 0; i < json_length(events); i++) {
        const struct json *event = json_at(events, i);
        int64_t process = json_int64(json_get(event, "pid"));
        assert_in_range(process, 0, 7);
        out->processes += strcmp(json_text(json_get(event, "name"), NULL), "process_name") == 0;
        out->events[process] += strcmp(json_text(json_get(event, "ph"), NULL), "X") == 0;
    }
    json_free(&file);
}

static void write_ticks(const char *path, int tick_count) {
    struct tick_trace *trace;
    EXPECT_OK(tick_trace_create(&(struct trace_place){0}, 8, &trace));
    for (int i = 0; i < tick_count; i++) {
        tick_trace_add(trace, TRACE_STEP, tick_trace_now(trace));
    }
    rank_timeline_write(path, &trace, 1);
    tick_trace_destroy(&trace);
}

/* Wherever a writer was killed: who adds next finds whole lines, and goes on behind the last sure one. */
static void what_was_written_survives_a_killed_writer(void **state) {
    (void)state;
    char path[2 * FIXTURE_PATH_BYTES];
    struct process_count count;
    struct string_buffer text = {0};
    snprintf(path, sizeof path, "%s/cut.json", layout_fixture_directory());
    EXPECT_OK(trace_file_prepare(path, false));
    write_ticks(path, 4);
    write_ticks(path, 5);
    FILE *file = fopen(path, "rb");
    for (int byte; (byte = fgetc(file)) != EOF;) {
        string_buffer_append(&text, &(char){(char)byte}, 1);
    }
    fclose(file);
    int seen = 0;
    for (size_t length = 1; length < text.length; length += 7) {
        fixture_write(layout_fixture_directory(), "cut.json", string_buffer_text(&text), length);
        write_ticks(path, 3);
        count_processes(path, &count);
        int before = count.processes - 1;
        assert_in_range(before, seen, 2);
        seen = before;
        assert_int_equal(count.events[before], 3);
        assert_true(before < 2 || count.events[0] == 4);
        assert_in_range(count.events[0] + count.events[1] + count.events[2], 3, 4 + 5 + 3);
    }
    assert_int_equal(seen, 2);
    string_buffer_deinit(&text);
}

/* Engines add to one file as processes; what is no file of this kind goes. */
static void engines_share_a_file(void **state) {
    (void)state;
    char path[2 * FIXTURE_PATH_BYTES];
    struct process_count count;
    snprintf(path, sizeof path, "%s/shared.json", layout_fixture_directory());
    EXPECT_OK(trace_file_prepare(path, false));
    for (int i = 0; i < 3; i++) {
        write_ticks(path, i + 2);
        count_processes(path, &count);
        assert_int_equal(count.processes, i + 1);
        assert_int_equal(count.events[i], i + 2);
    }
    assert_int_equal(count.events[0], 2);
    EXPECT_OK(trace_file_prepare(path, true));
    write_ticks(path, 1);
    count_processes(path, &count);
    assert_int_equal(count.processes, 4);
    EXPECT_OK(trace_file_prepare(path, false));
    write_ticks(path, 1);
    count_processes(path, &count);
    assert_int_equal(count.processes, 1);
    static const char *const others[] = {"no trace at all", "{\"traceEvents\": [\n], \"processCount\": 0}\n",
                                         "\n], \"processCount\": 12345678}\n", "\n], \"processCount\": x}\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        fixture_write(layout_fixture_directory(), "shared.json", others[i], strlen(others[i]));
        write_ticks(path, 3);
        count_processes(path, &count);
        assert_int_equal(count.processes, 1);
        assert_int_equal(count.events[0], 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_follow_and_groups_overlap),
        cmocka_unit_test(one_tick_at_a_time_has_no_overlap),
        cmocka_unit_test(one_rank_has_one_track),
        cmocka_unit_test(long_runs_keep_their_end),
        cmocka_unit_test(rings_are_in_the_ledger),
        cmocka_unit_test(engines_share_a_file),
        cmocka_unit_test(what_was_written_survives_a_killed_writer),
        cmocka_unit_test(a_path_that_cannot_be_written_to_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
