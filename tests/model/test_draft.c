/*
 * Draft passes: rows of the streams taken by index give the bits of the same rows alone; catch-up writes the
 * state of a full pass; steps 2..K go on from what the draft layer gave; rows saved beside snapshots.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/batch_upload.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum {
    SEQUENCES = 3,
    ALONE = SEQUENCES, /* the slot of a sequence that runs by itself */
    SLOTS,
    DRAFTS = 3,
    LENGTH_MAX = 21, /* more than the tiny model's window, so that rings go round */
    ROW_LIMIT = 64,
    SAVED_ROWS = 2,
};

static const int32_t lengths[SEQUENCES] = {19, 1, LENGTH_MAX};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    struct engine_core *engines[NUMERICS_COUNT];        /* each with an executor that has saved rows */
    int32_t tokens[SEQUENCES][LENGTH_MAX + 1 + DRAFTS]; /* prompt, the token after it, drafts */
    float last_logits[SEQUENCES][TINY_VOCABULARY];      /* of the draft layer at the prompt's last row */
};

/* The engine's executor again, but with rows to save. */
static void replace_executor(struct engine_core *engine) {
    struct executor_options options = model_executor_options(engine, ROW_LIMIT, SLOTS);
    options.logit_row_limit = 2; /* so that logits are made in turns */
    options.saved_row_limit = SAVED_ROWS;
    executor_destroy(&engine->executor);
    EXPECT_OK(executor_create(&options, &engine->executor));
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    for (int i = 0; i < SEQUENCES; i++) {
        model_random_tokens((uint64_t)i, TINY_VOCABULARY, fixture->tokens[i], LENGTH_MAX + 1 + DRAFTS);
    }
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        options.numerics = (enum sluice_numerics)numerics;
        options.sequence_limit = SLOTS;
        options.draft.limit = DRAFTS;
        options.thread_count = 2;
        fixture->engines[numerics] = model_open(&options);
        replace_executor(fixture->engines[numerics]);
    }
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        engine_core_close(&fixture->engines[numerics]);
    }
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

/* One segment from row `source_row` on; logits NULL: state only. */
static void run_draft(struct engine_core *engine, enum draft_source source, int32_t source_row,
                      struct step_segment segment, float *logits) {
    int32_t rows[ROW_LIMIT];
    for (int32_t i = 0; i < segment.row_count; i++) {
        rows[i] = source_row + i;
    }
    struct draft_plan plan = {.segments = &segment,
                              .segment_count = 1,
                              .source = source,
                              .source_rows = rows,
                              .writes_state_only = logits == NULL};
    EXPECT_OK(executor_run_draft(engine->executor, &plan, logits));
}

static void forget_all(struct engine_core *engine) {
    EXPECT_OK(stream_fill(engine->stream, engine->states.memory, 0xFF, engine->states.row_memory_bytes));
}

/* Each sequence token by token, every draft pass over the only row of its step. */
static void run_alone(struct fixture *fixture, struct engine_core *engine) {
    for (int i = 0; i < SEQUENCES; i++) {
        for (int32_t p = 0; p < lengths[i]; p++) {
            model_run(engine, ALONE, p, &fixture->tokens[i][p], 1, NULL);
            run_draft(engine, DRAFT_SOURCE_STEP, 0,
                      (struct step_segment){ALONE, p, 1, &fixture->tokens[i][p + 1]},
                      fixture->last_logits[i]);
        }
    }
}

/* All prompts in one step; returns the row of each one's last token. */
static void run_together(const struct fixture *fixture, struct engine_core *engine,
                         int32_t last_rows[SEQUENCES]) {
    struct step_segment segments[SEQUENCES];
    int32_t row = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        segments[i] = (struct step_segment){i, 0, lengths[i], fixture->tokens[i]};
        row += lengths[i];
        last_rows[i] = row - 1;
    }
    struct step_plan plan = {.segments = segments, .segment_count = SEQUENCES};
    EXPECT_OK(executor_run(engine->executor, &plan, NULL));
}

/* The state rows of all prompts but their last ones, in one pass that goes through the step backwards. */
static void catch_up(const struct fixture *fixture, struct engine_core *engine,
                     const int32_t last_rows[SEQUENCES]) {
    struct step_segment segments[SEQUENCES];
    int32_t source_rows[ROW_LIMIT];
    int32_t rows = 0;
    int segment_count = 0;
    for (int i = SEQUENCES - 1; i >= 0; i--) {
        if (lengths[i] > 1) {
            segments[segment_count++] = (struct step_segment){i, 0, lengths[i] - 1, &fixture->tokens[i][1]};
        }
        for (int32_t p = 0; p < lengths[i] - 1; p++) {
            source_rows[rows++] = last_rows[i] - (lengths[i] - 1) + p;
        }
    }
    struct draft_plan plan = {.segments = segments,
                              .segment_count = segment_count,
                              .source = DRAFT_SOURCE_STEP,
                              .source_rows = source_rows,
                              .writes_state_only = true};
    EXPECT_OK(executor_run_draft(engine->executor, &plan, NULL));
}

/* One row per sequence `order[i]`, from source_rows[i], `step` tokens behind the prompt. */
static void run_one_each(const struct fixture *fixture, struct engine_core *engine, enum draft_source source,
                         const int *order, const int32_t *source_rows, int32_t step,
                         float logits[SEQUENCES][TINY_VOCABULARY]) {
    struct step_segment segments[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++) {
        int s = order[i];
        int32_t position = lengths[s] - 1 + step;
        segments[i] = (struct step_segment){s, position, 1, &fixture->tokens[s][position + 1]};
    }
    struct draft_plan plan = {
        .segments = segments, .segment_count = SEQUENCES, .source = source, .source_rows = source_rows};
    EXPECT_OK(executor_run_draft(engine->executor, &plan, logits[0]));
}

/* Prompts of several lengths in one step, their last rows drafted from in several orders. */
static void test_rows_by_index(void **state) {
    struct fixture *fixture = *state;
    static const int orders[3][SEQUENCES] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = fixture->engines[numerics];
        int32_t last_rows[SEQUENCES];
        forget_all(engine);
        run_alone(fixture, engine);
        run_together(fixture, engine, last_rows);
        catch_up(fixture, engine, last_rows);
        for (int n = 0; n < 3; n++) {
            float logits[SEQUENCES][TINY_VOCABULARY];
            int32_t source_rows[SEQUENCES];
            for (int i = 0; i < SEQUENCES; i++) {
                source_rows[i] = last_rows[orders[n][i]];
            }
            run_one_each(fixture, engine, DRAFT_SOURCE_STEP, orders[n], source_rows, 0, logits);
            for (int i = 0; i < SEQUENCES; i++) {
                model_expect_same_logits(logits[i], fixture->last_logits[orders[n][i]], 1, TINY_VOCABULARY,
                                         "a row by index");
            }
        }
    }
}

/* The draft layer's ring of a slot, all bytes of it. */
static unsigned char *copy_ring(const struct engine_core *engine, int32_t slot, size_t *bytes) {
    for (int i = 0; i < engine->state_table.count; i++) {
        if (engine->state_table.kinds[i].layer >= engine->model->layer_count) {
            const struct state_rows *rows = &engine->states.rows[i];
            *bytes = (size_t)rows->rows_per_slot * rows->row_bytes;
            unsigned char *copy = malloc(*bytes);
            assert_non_null(copy);
            EXPECT_OK(
                stream_copy_to_host(engine->stream, copy, state_rows_at_position(rows, slot, 0), *bytes));
            EXPECT_OK(stream_synchronize(engine->stream));
            return copy;
        }
    }
    fail_msg("the draft layer has no state");
    return NULL;
}

/* M-11, M-12: catch-up in one pass leaves the same ring as full passes row by row, and rows that were not run
 * alone. */
static void test_catch_up_writes_the_same_state(void **state) {
    const struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = fixture->engines[numerics];
        const int32_t *tokens = fixture->tokens[2];
        float logits[TINY_VOCABULARY];
        for (int32_t length = 1; length <= LENGTH_MAX; length += 5) {
            size_t bytes;
            forget_all(engine);
            model_run(engine, 0, 0, tokens, length, NULL);
            for (int32_t p = 0; p < length; p++) {
                run_draft(engine, DRAFT_SOURCE_STEP, p, (struct step_segment){0, p, 1, &tokens[p + 1]},
                          logits);
            }
            run_draft(engine, DRAFT_SOURCE_STEP, 0, (struct step_segment){1, 0, length, &tokens[1]}, NULL);
            unsigned char *full = copy_ring(engine, 0, &bytes);
            unsigned char *state_only = copy_ring(engine, 1, &bytes);
            unsigned char *untouched = copy_ring(engine, 2, &bytes);
            assert_memory_equal(state_only, full, bytes);
            assert_memory_not_equal(full, untouched, bytes);
            free(full);
            free(state_only);
            free(untouched);
        }
    }
}

/* The model's own functions, called one after the other, with every boundary in memory of its own. */
struct direct {
    struct engine_core *engine;
    struct op_table table;
    struct device_arena arena;
    struct op_queue queue;
    int32_t *staging;
    enum dtype activation;
};

static struct boundary direct_boundary(struct direct *direct, int64_t rows) {
    const struct model *model = direct->engine->model;
    struct boundary out;
    model->family->describe_boundary(model, direct->activation, rows, &out);
    EXPECT_OK(device_arena_alloc(&direct->arena, tensor_bytes(&out.tensors[0]), &out.tensors[0].data));
    return out;
}

/* One pass of the draft layer over all rows of the segment; logits of its last row. Returns what it wrote. */
static struct boundary direct_draft(struct direct *direct, const struct boundary *in, int32_t in_row,
                                    struct step_segment segment, float *logits) {
    const struct model *model = direct->engine->model;
    struct stream *stream = direct->queue.stream;
    struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct boundary out = direct_boundary(direct, segment.row_count);
    struct batch_view batch;
    struct tensor device_logits;
    int32_t rows[ROW_LIMIT];
    void *in_rows;
    for (int32_t i = 0; i < segment.row_count; i++) {
        rows[i] = in_row + i;
    }
    size_t bytes = (size_t)segment.row_count * sizeof *rows;
    EXPECT_OK(batch_upload(&plan, direct->staging, stream, &direct->arena, &batch));
    EXPECT_OK(device_arena_alloc(&direct->arena, bytes, &in_rows));
    EXPECT_OK(stream_copy_to_device(stream, in_rows, rows, bytes));
    EXPECT_OK(DEVICE_ARENA_TENSOR(&direct->arena, DTYPE_F32, &device_logits, 1, TINY_VOCABULARY));
    struct step step = {.queue = &direct->queue,
                        .batch = &batch,
                        .states = direct->engine->states.rows,
                        .activation = direct->activation};
    EXPECT_OK(model->family->forward_draft(model, &step, in, in_rows, &out));
    struct boundary last = out;
    last.tensors[0] = tensor_slice(&out.tensors[0], segment.row_count - 1, 1);
    const struct picked_rows picked = {.own_count = 1, .count = 1};
    EXPECT_OK(model->family->forward_draft_head(model, &step, &last, &picked, &device_logits));
    EXPECT_OK(stream_copy_to_host(stream, logits, device_logits.data, tensor_bytes(&device_logits)));
    EXPECT_OK(stream_synchronize(stream));
    return out;
}

/* A prompt's draft pass over all its rows, then steps 2..K: logits [DRAFTS]. */
static void run_directly(struct engine_core *engine, const int32_t *tokens, int32_t length,
                         float logits[DRAFTS][TINY_VOCABULARY]) {
    const struct model *model = engine->model;
    enum numerics numerics = (enum numerics)engine->options.numerics;
    struct direct direct = {.engine = engine, .activation = numerics_activation_dtype(numerics)};
    struct step_segment segment = {ALONE, 0, length, tokens};
    struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct batch_view batch;
    EXPECT_OK(engine->backend->build_table(numerics, "auto", &direct.table));
    EXPECT_OK(device_arena_init(&direct.arena, engine->device, 32 << 20));
    direct.queue = (struct op_queue){
        .table = &direct.table, .stream = engine->stream, .pool = engine->pool, .arena = &direct.arena};
    direct.staging = calloc(batch_upload_count(ROW_LIMIT, 1), sizeof *direct.staging);
    assert_non_null(direct.staging);
    struct boundary streams = direct_boundary(&direct, length);
    EXPECT_OK(batch_upload(&plan, direct.staging, engine->stream, &direct.arena, &batch));
    struct step step = {.queue = &direct.queue,
                        .batch = &batch,
                        .states = engine->states.rows,
                        .activation = direct.activation};
    EXPECT_OK(model->family->forward_embed(model, &step, &streams));
    EXPECT_OK(model->family->forward_layers(model, &step, &streams, 0, model->layer_count));
    segment.token_ids = tokens + 1;
    struct boundary drafted = direct_draft(&direct, &streams, 0, segment, logits[0]);
    for (int32_t i = 1; i < DRAFTS; i++) {
        int32_t position = length - 1 + i;
        segment = (struct step_segment){ALONE, position, 1, &tokens[position + 1]};
        drafted = direct_draft(&direct, &drafted, i == 1 ? length - 1 : 0, segment, logits[i]);
    }
    device_arena_deinit(&direct.arena);
    free(direct.staging);
}

/* M-7: steps 2..K of several sequences, in another order each time, against the model's functions by hand. */
static void test_recycling(void **state) {
    const struct fixture *fixture = *state;
    static const int orders[DRAFTS][SEQUENCES] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 2}};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = fixture->engines[numerics];
        float expected[SEQUENCES][DRAFTS][TINY_VOCABULARY];
        int32_t rows_of[SEQUENCES];
        forget_all(engine);
        for (int s = 0; s < SEQUENCES; s++) {
            run_directly(engine, fixture->tokens[s], lengths[s], expected[s]);
        }
        run_together(fixture, engine, rows_of);
        catch_up(fixture, engine, rows_of);
        for (int32_t step = 0; step < DRAFTS; step++) {
            float logits[SEQUENCES][TINY_VOCABULARY];
            int32_t source_rows[SEQUENCES];
            for (int i = 0; i < SEQUENCES; i++) {
                source_rows[i] = rows_of[orders[step][i]];
            }
            run_one_each(fixture, engine, step == 0 ? DRAFT_SOURCE_STEP : DRAFT_SOURCE_DRAFT, orders[step],
                         source_rows, step, logits);
            for (int i = 0; i < SEQUENCES; i++) {
                rows_of[orders[step][i]] = i;
                model_expect_same_logits(logits[i], expected[orders[step][i]][step], 1, TINY_VOCABULARY,
                                         "a draft step");
            }
        }
    }
}

/* A saved row outlives its step, goes to host memory and back, and drafts like the row that it was. */
static void test_saved_rows(void **state) {
    const struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = fixture->engines[numerics];
        const int32_t *tokens = fixture->tokens[0];
        struct step_segment segment = {0, 4, 1, &tokens[5]};
        float expected[TINY_VOCABULARY];
        float actual[TINY_VOCABULARY];
        size_t bytes = executor_saved_row_bytes(engine->executor);
        assert_int_equal(bytes, 4 * 256 * (numerics == NUMERICS_IDEAL ? sizeof(float) : 2));
        unsigned char *copy = malloc(bytes);
        assert_non_null(copy);
        forget_all(engine);
        model_run(engine, 0, 0, tokens, 8, NULL);
        EXPECT_OK(executor_save_row(engine->executor, 4, 0));
        run_draft(engine, DRAFT_SOURCE_STEP, 0, (struct step_segment){0, 0, 4, &tokens[1]}, NULL);
        run_draft(engine, DRAFT_SOURCE_STEP, 4, segment, expected);
        model_run(engine, 1, 0, tokens + 2, 8, NULL);
        run_draft(engine, DRAFT_SOURCE_SAVED, 0, segment, actual);
        model_expect_same_logits(actual, expected, 1, TINY_VOCABULARY, "a saved row");
        EXPECT_OK(executor_read_saved_row(engine->executor, 0, copy));
        EXPECT_OK(executor_save_row(engine->executor, 3, 0));
        EXPECT_OK(executor_write_saved_row(engine->executor, 1, copy));
        run_draft(engine, DRAFT_SOURCE_SAVED, 1, segment, actual);
        model_expect_same_logits(actual, expected, 1, TINY_VOCABULARY, "a row that was on the host");
        run_draft(engine, DRAFT_SOURCE_SAVED, 0, segment, actual);
        assert_memory_not_equal(actual, expected, sizeof actual);
        free(copy);
    }
}

/* Plans and rows beyond what there is are refused with what there is. */
static void test_refusals(void **state) {
    const struct fixture *fixture = *state;
    struct executor *executor = fixture->engines[NUMERICS_IDEAL]->executor;
    const int32_t *tokens = fixture->tokens[2];
    float logits[SLOTS][TINY_VOCABULARY];
    int32_t rows[SLOTS + 1] = {0};
    struct step_segment segment = {0, 0, SLOTS + 1, &tokens[1]};
    struct draft_plan plan = {.segments = &segment, .segment_count = 1, .source_rows = rows};
    model_run(fixture->engines[NUMERICS_IDEAL], 0, 0, tokens, 8, NULL);
    fixture_expect_error(executor_run_draft(executor, &plan, logits[0]), STATUS_INTERNAL,
                         "a draft pass of 5 rows exceeds the planned 4");
    plan.writes_state_only = true;
    EXPECT_OK(executor_run_draft(executor, &plan, NULL));
    segment.row_count = ROW_LIMIT + 1;
    fixture_expect_error(executor_run_draft(executor, &plan, NULL), STATUS_INTERNAL, "65 rows");
    segment.row_count = 3;
    rows[2] = 8;
    fixture_expect_error(executor_run_draft(executor, &plan, NULL), STATUS_INTERNAL,
                         "row 2 of a draft pass goes on from row 8 of the last step, which has 8 rows");
    rows[2] = -1;
    fixture_expect_error(executor_run_draft(executor, &plan, NULL), STATUS_INTERNAL, "from row -1");
    rows[2] = SAVED_ROWS;
    plan.source = DRAFT_SOURCE_SAVED;
    fixture_expect_error(executor_run_draft(executor, &plan, NULL), STATUS_INTERNAL,
                         "row 2 of the saved rows, which has 2 rows");
    fixture_expect_error(executor_save_row(executor, 8, 0), STATUS_INTERNAL, "which has 8 rows");
    fixture_expect_error(executor_save_row(executor, 0, SAVED_ROWS), STATUS_INTERNAL, "saved row 2 of 2");
    fixture_expect_error(executor_read_saved_row(executor, -1, logits), STATUS_INTERNAL, "saved row -1");
    fixture_expect_error(executor_write_saved_row(executor, 2, logits), STATUS_INTERNAL, "saved row 2");
}

static void test_drafting_off_is_refused(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = model_options(fixture->directory);
    struct engine_core *engine = model_open(&options);
    const int32_t row = 0;
    float logits[TINY_VOCABULARY];
    struct step_segment segment = {0, 0, 1, fixture->tokens[0]};
    struct draft_plan plan = {.segments = &segment, .segment_count = 1, .source_rows = &row};
    model_run(engine, 0, 0, fixture->tokens[0], 1, NULL);
    fixture_expect_error(executor_run_draft(engine->executor, &plan, logits), STATUS_INTERNAL,
                         "drafting is off");
    fixture_expect_error(executor_save_row(engine->executor, 0, 0), STATUS_INTERNAL, "saved row 0 of 0");
    assert_int_equal(executor_saved_row_bytes(engine->executor), 0);
    engine_core_close(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_by_index), cmocka_unit_test(test_catch_up_writes_the_same_state),
        cmocka_unit_test(test_recycling),     cmocka_unit_test(test_saved_rows),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_drafting_off_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
