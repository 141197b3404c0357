/*
 * Drafts are the same on every layout and from every start: as many are right as on one rank without a cache,
 * on mini-v4, whose draft layer is trained. Prompts that end with a page are among them: they take one step,
 * and leave two places to start from, before their last page and behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/request_fixture.h"
#include "support/round_driver.h"

enum {
    PAGE = 128,
    PAGES_MAX = 2,
    ANSWER = 30,
    GOING_ON = 5,
    TEXT = PAGES_MAX * PAGE + GOING_ON,
    DRAFTS = 2,
    SNAPSHOT_SLOT = 2
};

struct layout {
    int pipeline;
    int tensor;
};

/* What a prompt gives. */
struct outcome {
    struct answer answer;
    size_t accepted;
    size_t cached;
    int64_t steps;
};

static struct sluice_engine *open_engine(struct layout layout, bool has_cache) {
    struct sluice_engine_options options = request_engine_options();
    struct sluice_engine *engine;
    options.sequence_limit = 2;
    options.has_prefix_cache = has_cache;
    options.draft.limit = DRAFTS;
    options.draft.is_adaptive = false;
    options.parallel.pipeline = layout.pipeline;
    options.parallel.tensor = layout.tensor;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

static void run(struct sluice_engine *engine, int32_t *prompt, size_t count, int limit, struct outcome *out) {
    const struct planned_request planned = {.prompt = prompt, .prompt_count = count, .answer_limit = limit};
    int64_t before = sluice_engine_stats(engine).steps;
    struct sluice_request *request = request_submit(engine, &planned, 0);
    *out = (struct outcome){0};
    request_collect(request, &out->answer);
    struct sluice_request_state state = sluice_request_state(request);
    out->accepted = state.accepted_drafts;
    out->cached = state.cached_prompt_tokens;
    sluice_request_release(&request);
    out->steps = sluice_engine_stats(engine).steps - before;
}

/* What the model writes itself: drafts of it are often right. */
static void write_text(struct sluice_engine *engine, int32_t *text) {
    int count = 4;
    memcpy(text, (const int32_t[]){11, 12, 13, 14}, 4 * sizeof *text);
    while (count < TEXT) {
        struct outcome outcome;
        run(engine, text, (size_t)count, ANSWER, &outcome);
        for (size_t i = 0; i < outcome.answer.count && count < TEXT; i++) {
            text[count++] = outcome.answer.tokens[i];
        }
    }
}

static void expect_same(const struct outcome *actual, const struct outcome *cold, size_t cached) {
    assert_int_equal(cold->cached, 0);
    assert_int_equal(actual->cached, cached);
    assert_memory_equal(&actual->answer, &cold->answer, sizeof cold->answer);
    assert_int_equal(actual->accepted, cold->accepted);
}

struct scene {
    int32_t text[TEXT];
    struct sluice_engine *reference; /* one rank, no cache */
};

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->reference = open_engine((struct layout){1, 1}, false);
    write_text(scene->reference, scene->text);
    *state = scene;
    return 0;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    sluice_engine_close(&scene->reference);
    free(scene);
    return 0;
}

/* The draft layer is on the last stage, whoever plans: it catches up on prompts there as on one rank. */
static void layouts_make_the_same_drafts(void **state) {
    static const struct layout layouts[] = {{2, 1}, {4, 1}, {1, 2}, {2, 2}};
    static struct outcome alone;
    static struct outcome outcome;
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct sluice_engine *engine = open_engine(layouts[i], false);
        size_t accepted = 0;
        for (size_t count = 20; count <= TEXT; count += 60) {
            run(scene->reference, scene->text, count, ANSWER, &alone);
            run(engine, scene->text, count, ANSWER, &outcome);
            expect_same(&outcome, &alone, 0);
            accepted += outcome.accepted;
        }
        assert_true(accepted > 30);
        sluice_engine_close(&engine);
    }
}

static void whole_pages_take_one_step(void **state) {
    static const struct layout layouts[] = {{1, 1}, {2, 1}, {2, 2}};
    static struct outcome cold;
    static struct outcome warm;
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        for (size_t count = PAGE; count <= PAGES_MAX * PAGE; count += PAGE) {
            struct sluice_engine *engine = open_engine(layouts[i], true);
            run(engine, scene->text, count, 1, &warm);
            assert_int_equal(warm.steps, 1);
            run(scene->reference, scene->text, count, ANSWER, &cold);
            run(engine, scene->text, count, ANSWER, &warm);
            expect_same(&warm, &cold, count - PAGE);
            run(scene->reference, scene->text, count + GOING_ON, ANSWER, &cold);
            assert_true(cold.accepted > 5);
            run(engine, scene->text, count + GOING_ON, ANSWER, &warm);
            expect_same(&warm, &cold, count);
            sluice_engine_close(&engine);
        }
    }
}

/* An engine's work by hand, one sequence at a time. */
static void open_driver(struct round_driver *driver, int step_tokens, int sequences, int snapshots) {
    struct sluice_engine_options options = request_engine_options();
    options.sequence_limit = sequences;
    options.step_token_limit = step_tokens;
    options.snapshot_limit = snapshots;
    options.draft.limit = DRAFTS;
    options.draft.is_adaptive = false;
    round_driver_open(driver, &options);
}

static void drive(struct round_driver *driver, const int32_t *prompt, size_t count) {
    struct sluice_request_options request = sluice_request_options_default();
    struct sequence sequence;
    request.prompt = prompt;
    request.prompt_count = count;
    request.token_limit = 1;
    round_driver_submit(driver, &request, &sequence);
    round_driver_finish(driver);
    sequence_deinit(&sequence);
}

/* The boundary row that is kept for a snapshot. */
static unsigned char *read_kept_row(struct round_driver *driver, int32_t slot) {
    unsigned char *bytes = malloc(executor_saved_row_bytes(driver->work.core->executor));
    assert_non_null(bytes);
    EXPECT_OK(executor_read_saved_row(driver->work.core->executor, slot, bytes));
    return bytes;
}

/* Snapshots inside a step and at its end have the rows that steps which end there leave. */
static void kept_rows_are_those_of_short_steps(void **state) {
    const struct scene *scene = *state;
    struct round_driver once;
    struct round_driver twice;
    open_driver(&once, PAGES_MAX * PAGE, 1, 0);
    open_driver(&twice, PAGE, 1, 0);
    struct round_driver *drivers[] = {&once, &twice};
    for (int i = 0; i < 2; i++) {
        drive(drivers[i], scene->text, (size_t)PAGES_MAX * PAGE);
        drive(drivers[i], scene->text + 1, 3); /* what the end asked for is done with the next plan */
    }
    size_t bytes = executor_saved_row_bytes(once.work.core->executor);
    unsigned char *rows[2][PAGES_MAX];
    for (int i = 0; i < 2; i++) {
        for (int page = 0; page < PAGES_MAX; page++) {
            rows[i][page] = read_kept_row(drivers[i], 1 + page); /* slots of snapshots come behind the one */
        }
        assert_memory_not_equal(rows[i][0], rows[i][1], bytes);
    }
    for (int page = 0; page < PAGES_MAX; page++) {
        assert_memory_equal(rows[0][page], rows[1][page], bytes);
        free(rows[0][page]);
        free(rows[1][page]);
    }
    round_driver_close(&once);
    round_driver_close(&twice);
}

/* The draft layer's row of a position in a slot's ring. */
static const void *draft_row(const struct round_driver *driver, int32_t slot, int32_t position,
                             size_t *bytes) {
    const struct engine_core *core = driver->work.core;
    int kind = core->state_table.count - 1;
    const struct state_rows *rows = &core->states.rows[kind];
    assert_true(core->state_table.kinds[kind].is_draft);
    *bytes = rows->row_bytes;
    int64_t row = slot * rows->rows_per_slot + position % rows->rows_per_slot;
    return (const unsigned char *)rows->memory + (size_t)row * rows->row_bytes;
}

/* The draft layer's row before a sequence's first own one, in slot 0, after a round that others may be in. */
static void start_from_snapshot(const struct scene *scene, bool has_company, unsigned char *row,
                                size_t bytes) {
    struct sluice_request_options request = sluice_request_options_default();
    struct sequence sequences[2];
    struct round_driver driver;
    size_t row_bytes;
    open_driver(&driver, 2 * TEXT, 2, 1);
    drive(&driver, scene->text, PAGE + 1); /* leaves the only snapshot */
    request.token_limit = 1;
    request.prompt = scene->text;
    request.prompt_count = PAGE + 2;
    round_driver_submit(&driver, &request, &sequences[0]);
    request.prompt = scene->text + 1; /* another beginning: its snapshot takes the place of the first */
    for (int i = 0; i < has_company; i++) {
        round_driver_submit(&driver, &request, &sequences[1]);
    }
    assert_true(round_driver_run(&driver));
    assert_int_equal(driver.plan.segments[0].saved_row, SNAPSHOT_SLOT);
    assert_int_equal(driver.plan.step.snapshot_count, has_company);
    assert_true(!has_company || driver.plan.step.snapshots[0].slot == SNAPSHOT_SLOT);
    const void *from = draft_row(&driver, 0, PAGE - 1, &row_bytes);
    assert_in_range(row_bytes, 1, bytes);
    memcpy(row, from, row_bytes);
    round_driver_finish(&driver);
    sequence_deinit(&sequences[0]);
    for (int i = 0; i < has_company; i++) {
        sequence_deinit(&sequences[1]);
    }
    round_driver_close(&driver);
}

/* What a sequence goes on from is read before another's snapshot takes its place in the same step. */
static void a_snapshot_makes_way_for_the_next(void **state) {
    unsigned char alone[1024] = {0};
    unsigned char among[1024] = {0};
    start_from_snapshot(*state, false, alone, sizeof alone);
    start_from_snapshot(*state, true, among, sizeof among);
    assert_memory_equal(among, alone, sizeof alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_make_the_same_drafts),
        cmocka_unit_test(whole_pages_take_one_step),
        cmocka_unit_test(kept_rows_are_those_of_short_steps),
        cmocka_unit_test(a_snapshot_makes_way_for_the_next),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
