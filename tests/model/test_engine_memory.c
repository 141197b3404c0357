/*
 * The memory ledger: what an engine plans is what it takes, a step takes nothing more, closing gives all
 * back.
 *
 * The program is linked with its own malloc, calloc, realloc and aligned allocation in front of the C
 * library's; they count. Functions in front of the engine's own record what it launches and copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/batch_upload.h"
#include "engine/engine_internal.h"
#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "support/round_driver.h"
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

/* What was done to a stream while the record was open. */
enum { COPY_TO_DEVICE = OP_COUNT, COPY_TO_HOST, COPY_WITHIN, FILL, DEEDS_MAX = 8192 };

struct deed {
    int what;                     /* an operation or a kind of copy */
    const struct op_entry *entry; /* of an operation: the kernel */
    size_t bytes;                 /* of the copy; of the step arena before the operation */
};

struct record {
    int count;
    struct deed deeds[DEEDS_MAX];
};

/* The open one, NULL if there is none. */
static struct record *record;

static void note(struct deed deed) {
    if (record != NULL) {
        assert_true(record->count < DEEDS_MAX);
        record->deeds[record->count++] = deed;
    }
}

enum status __real_op_queue_submit(struct op_queue *queue, enum op_id op, const void *args);
enum status __real_stream_copy_to_device(struct stream *stream, void *to, const void *from, size_t bytes);
enum status __real_stream_copy_to_host(struct stream *stream, void *to, const void *from, size_t bytes);
enum status __real_stream_copy_within(struct stream *stream, void *to, const void *from, size_t bytes);
enum status __real_stream_fill(struct stream *stream, void *to, unsigned char value, size_t bytes);
enum status __wrap_op_queue_submit(struct op_queue *queue, enum op_id op, const void *args);
enum status __wrap_stream_copy_to_device(struct stream *stream, void *to, const void *from, size_t bytes);
enum status __wrap_stream_copy_to_host(struct stream *stream, void *to, const void *from, size_t bytes);
enum status __wrap_stream_copy_within(struct stream *stream, void *to, const void *from, size_t bytes);
enum status __wrap_stream_fill(struct stream *stream, void *to, unsigned char value, size_t bytes);

enum status __wrap_op_queue_submit(struct op_queue *queue, enum op_id op, const void *args) {
    note((struct deed){(int)op, op_table_choose(queue->table, op, args), queue->arena->used});
    return __real_op_queue_submit(queue, op, args);
}

enum status __wrap_stream_copy_to_device(struct stream *stream, void *to, const void *from, size_t bytes) {
    note((struct deed){COPY_TO_DEVICE, NULL, bytes});
    return __real_stream_copy_to_device(stream, to, from, bytes);
}

enum status __wrap_stream_copy_to_host(struct stream *stream, void *to, const void *from, size_t bytes) {
    note((struct deed){COPY_TO_HOST, NULL, bytes});
    return __real_stream_copy_to_host(stream, to, from, bytes);
}

enum status __wrap_stream_copy_within(struct stream *stream, void *to, const void *from, size_t bytes) {
    note((struct deed){COPY_WITHIN, NULL, bytes});
    return __real_stream_copy_within(stream, to, from, bytes);
}

enum status __wrap_stream_fill(struct stream *stream, void *to, unsigned char value, size_t bytes) {
    note((struct deed){FILL, NULL, bytes});
    return __real_stream_fill(stream, to, value, bytes);
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

static int draft_state_count(const struct engine_core *engine) {
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
        struct engine_core *off = model_open(&options);
        options.draft.limit = 3;
        struct engine_core *on = model_open(&options);
        options.draft.limit = 0;
        options.model_directory = fixture->draftless;
        struct engine_core *draftless = model_open(&options);
        assert_int_equal(draft_state_count(off), 0);
        assert_int_equal(draft_state_count(on), 1);
        assert_int_equal(off->state_table.count, draftless->state_table.count);
        assert_int_equal(off->states.bytes, draftless->states.bytes);
        assert_int_equal(off->facts.memory.step_bytes, draftless->facts.memory.step_bytes);
        assert_int_equal(off->facts.memory.copied_weight_bytes, draftless->facts.memory.copied_weight_bytes);
        assert_int_equal(off->facts.memory.mapped_weight_bytes, draftless->facts.memory.mapped_weight_bytes);
        assert_int_equal(device_memory_bytes(off->device), device_memory_bytes(draftless->device));
        assert_int_equal(off->facts.memory.draft_bytes, 0);
        assert_int_equal(draftless->facts.memory.draft_bytes, 0);
        /* Weights are mapped, host buffers are the runner's: the rest is what the device holds more. */
        assert_true(on->facts.memory.draft_bytes >
                    device_memory_bytes(on->device) - device_memory_bytes(off->device));
        assert_true(on->states.bytes > off->states.bytes);
        assert_true(on->facts.memory.mapped_weight_bytes > off->facts.memory.mapped_weight_bytes);
        engine_core_close(&off);
        engine_core_close(&on);
        engine_core_close(&draftless);
    }
}

/* Copied weights count in the ledger as what they are, leave no map behind, and give the same bits. */
static void test_copied_weights_are_counted(void **state) {
    const struct fixture *fixture = *state;
    enum { TOKENS = 37 };
    float *logits[2];
    struct sluice_memory_ledger ledgers[2];
    int32_t tokens[TOKENS];
    model_spec_tokens(tokens, TOKENS);
    for (int is_copied = 0; is_copied < 2; is_copied++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        options.weights = is_copied ? SLUICE_WEIGHTS_COPIED : SLUICE_WEIGHTS_MAPPED;
        struct engine_core *engine = model_open(&options);
        logits[is_copied] = calloc(TOKENS * TINY_VOCABULARY, sizeof(float));
        assert_non_null(logits[is_copied]);
        model_run(engine, 0, 0, tokens, TOKENS, logits[is_copied]);
        ledgers[is_copied] = engine->facts.memory;
        assert_int_equal(is_copied == 0, engine->weights.checkpoint != NULL);
        assert_true(device_memory_bytes(engine->device) >= ledgers[is_copied].copied_weight_bytes);
        engine_core_close(&engine);
    }
    size_t mapped = ledgers[0].mapped_weight_bytes + ledgers[0].copied_weight_bytes;
    assert_true(ledgers[0].mapped_weight_bytes > 0);
    assert_int_equal(ledgers[1].mapped_weight_bytes, 0);
    /* Each copy begins at a multiple of 64 bytes. */
    assert_in_range(ledgers[1].copied_weight_bytes, mapped, mapped + mapped / 100);
    assert_int_equal(ledgers[1].page_count, ledgers[0].page_count);
    assert_memory_equal(logits[0], logits[1], TOKENS * TINY_VOCABULARY * sizeof(float));
    free(logits[0]);
    free(logits[1]);

    /* A limit is one for copies too: it is said before they are made. */
    struct sluice_engine_options options = model_options(fixture->directory);
    struct engine_core *engine = NULL;
    options.weights = SLUICE_WEIGHTS_COPIED;
    options.memory_limit_bytes = ledgers[1].copied_weight_bytes - 1;
    fixture_expect_error(engine_core_open(&options, &engine), STATUS_OUT_OF_MEMORY,
                         "leave the weights mapped (--weights mapped)");
}

/* The arena's bytes count from the first launch, whatever lies before. */
static void count_from_first_launch(struct record *done) {
    size_t base = 0;
    for (int i = 0; i < done->count; i++) {
        if (done->deeds[i].what < OP_COUNT) {
            base = base == 0 ? done->deeds[i].bytes : base;
            done->deeds[i].bytes -= base;
        }
    }
}

/* A chunk, then decoding. */
static void record_steps(struct engine_core *engine, struct record *out) {
    float logits[2 * TINY_VOCABULARY];
    int32_t tokens[37];
    model_spec_tokens(tokens, 37);
    *out = (struct record){0};
    record = out;
    model_run(engine, 0, 0, tokens, 35, NULL);
    model_run(engine, 0, 35, tokens + 35, 2, logits);
    model_run(engine, 0, 37, tokens, 1, logits);
    record = NULL;
    count_from_first_launch(out);
}

static void expect_same_record(const struct record *actual, const struct record *expected) {
    assert_true(expected->count > 100);
    assert_int_equal(actual->count, expected->count);
    for (int i = 0; i < actual->count; i++) {
        assert_int_equal(actual->deeds[i].what, expected->deeds[i].what);
        assert_ptr_equal(actual->deeds[i].entry, expected->deeds[i].entry);
        assert_int_equal(actual->deeds[i].bytes, expected->deeds[i].bytes);
    }
}

/*
 * A step is the same list of kernels and copies, of the same sizes, in an engine whose model has no MTP
 * layer, in one with drafting off, and in one that could draft but does not (COLD).
 */
static void test_steps_without_drafts_do_nothing_more(void **state) {
    const struct fixture *fixture = *state;
    struct record *records = calloc(3, sizeof *records);
    assert_non_null(records);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        for (int i = 0; i < 3; i++) {
            struct sluice_engine_options options =
                model_options(i == 0 ? fixture->draftless : fixture->directory);
            options.numerics = (enum sluice_numerics)numerics;
            options.draft.limit = i == 2 ? 3 : 0;
            struct engine_core *engine = model_open(&options);
            record_steps(engine, &records[i]);
            engine_core_close(&engine);
        }
        expect_same_record(&records[1], &records[0]);
        expect_same_record(&records[2], &records[0]);
    }
    free(records);
}

/* Two requests on an engine's work, one joining late: chunks and answers. */
static void record_rounds(const struct sluice_engine_options *options, struct record *out,
                          struct sequence *sequences) {
    struct sluice_request_options request = sluice_request_options_default();
    struct round_driver driver;
    int32_t tokens[200];
    model_spec_tokens(tokens, 200);
    request.prompt = tokens;
    request.token_limit = 12;
    *out = (struct record){0};
    round_driver_open(&driver, options);
    record = out;
    for (int i = 0; i < 2; i++) {
        request.prompt_count = 200 - (size_t)i;
        round_driver_submit(&driver, &request, &sequences[i]);
        for (int round = 0; round < 5; round++) {
            assert_true(round_driver_run(&driver));
        }
    }
    round_driver_finish(&driver);
    record = NULL;
    if (driver.work.controller != NULL) {
        struct draft_counters counters = draft_controller_counters(driver.work.controller);
        assert_true(counters.cold_ticks > 0);
        assert_int_equal(counters.proposed + counters.warm_ticks, 0);
    }
    round_driver_close(&driver);
    count_from_first_launch(out);
}

/*
 * Whole rounds of an engine that could draft, but whose schedule says no drafts, are the same list of
 * kernels, copies and fills, of the same sizes, as those of one without draft layer (M-1, M-36, P-39; T-21
 * without a clock).
 */
static void test_cold_rounds_do_nothing_more(void **state) {
    const struct fixture *fixture = *state;
    static const struct sluice_draft_schedule_row never = {1000, 0};
    struct record *records = calloc(2, sizeof *records);
    struct sequence sequences[2][2];
    assert_non_null(records);
    for (int is_able = 0; is_able < 2; is_able++) {
        struct sluice_engine_options options =
            model_options(is_able ? fixture->directory : fixture->draftless);
        options.numerics = SLUICE_NUMERICS_NATIVE;
        options.sequence_limit = 2;
        options.step_token_limit = 70;
        options.draft.limit = 3 * is_able;
        options.draft.schedule = &never;
        options.draft.schedule_row_count = 1;
        record_rounds(&options, &records[is_able], sequences[is_able]);
    }
    expect_same_record(&records[1], &records[0]);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(sequences[0][i].tokens, sequences[1][i].tokens,
                            (size_t)sequences[0][i].token_count * sizeof(int32_t));
        sequence_deinit(&sequences[0][i]);
        sequence_deinit(&sequences[1][i]);
    }
    free(records);
}

/* Hidden states are never copied: a step and its draft passes move batch, indices and logits, no more. */
static void test_drafts_copy_no_streams(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = model_options(fixture->directory);
    static const int32_t rows[2] = {1, 0};
    float logits[TINY_VOCABULARY];
    int32_t tokens[8];
    struct record *done = calloc(1, sizeof *done);
    assert_non_null(done);
    model_spec_tokens(tokens, 8);
    options.draft.limit = 2;
    struct engine_core *engine = model_open(&options);
    record = done;
    model_run(engine, 0, 0, tokens, 3, NULL);
    struct step_segment segment = {0, 0, 2, tokens + 1};
    struct draft_plan plan = {.segments = &segment, .segment_count = 1, .source_rows = rows};
    plan.writes_state_only = true;
    EXPECT_OK(executor_run_draft(engine->executor, &plan, NULL));
    segment = (struct step_segment){0, 2, 1, tokens + 3};
    plan.writes_state_only = false;
    EXPECT_OK(executor_run_draft(engine->executor, &plan, logits));
    plan.source = DRAFT_SOURCE_DRAFT;
    plan.source_rows = rows + 1;
    EXPECT_OK(executor_run_draft(engine->executor, &plan, logits));
    record = NULL;
    size_t copied[4] = {0};
    for (int i = 0; i < done->count; i++) {
        if (done->deeds[i].what >= OP_COUNT) {
            copied[done->deeds[i].what - OP_COUNT] += done->deeds[i].bytes;
        }
    }
    size_t integers = batch_upload_count(3, 1) + (batch_upload_count(2, 1) + 2) +
                      2 * (batch_upload_count(1, 1) + 1); /* step, catch-up, two full passes */
    assert_int_equal(copied[COPY_TO_DEVICE - OP_COUNT], integers * sizeof(int32_t));
    assert_int_equal(copied[COPY_TO_HOST - OP_COUNT], 2 * sizeof logits);
    assert_int_equal(copied[COPY_WITHIN - OP_COUNT], 0);
    engine_core_close(&engine);
    free(done);
}

static size_t step_bytes(struct engine_core *engine, int32_t row_limit, int32_t saved_rows) {
    enum { SEGMENTS = 5 };
    struct executor_options options = model_executor_options(engine, row_limit, SEGMENTS);
    struct executor *executor;
    options.logit_row_limit = 1; /* or logits would hide what the layers need */
    options.saved_row_limit = saved_rows;
    EXPECT_OK(executor_create(&options, &executor));
    size_t bytes = executor_step_bytes(executor);
    executor_destroy(&executor);
    return bytes;
}

/* Drafting costs the two boundaries of its steps and the saved rows: no row for each row of a step. */
static void test_drafting_on_costs_its_own_rows(void **state) {
    const struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        const size_t row_bytes = 4 * 256 * (numerics == NUMERICS_IDEAL ? sizeof(float) : 2);
        options.numerics = (enum sluice_numerics)numerics;
        struct engine_core *off = model_open(&options);
        options.draft.limit = 3;
        struct engine_core *on = model_open(&options);
        for (int32_t rows = 2; rows <= 512; rows *= 4) {
            size_t draft_rows = rows < 5 ? 2 : 5;
            assert_int_equal(step_bytes(off, rows, 7), step_bytes(off, rows, 0));
            assert_int_equal(step_bytes(on, rows, 0), step_bytes(off, rows, 0) + 2 * draft_rows * row_bytes);
            assert_int_equal(step_bytes(on, rows, 7), step_bytes(on, rows, 0) + 7 * row_bytes);
        }
        engine_core_close(&off);
        engine_core_close(&on);
    }
}

/* State by the specification's sizes (spec 5.1): rows of FP8 with their bf16 tail, FP4 rows, float rows. */
static void test_state_bytes(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.context_tokens = 256;
    options.sequence_limit = 3;
    struct engine_core *engine = model_open(&options);
    const size_t kv_row = 64 + 8 + 64 * 2; /* codes, one scale padded to 8, rotary channels */
    const size_t index_row = 64 + 4;
    size_t window = 16 * kv_row;
    size_t indexed = 8 * (4 * 128 + 4 * 128) * sizeof(float) + 64 * (kv_row + index_row);
    size_t plain_16 = 16 * 2 * 128 * sizeof(float) + 16 * kv_row;
    size_t plain_128 = 128 * 2 * 128 * sizeof(float) + 2 * kv_row;
    size_t expected = 3 * (6 * window + 3 * indexed + plain_16 + plain_128);
    assert_in_range(engine->states.bytes, expected, expected + 64 * 64);
    engine_core_close(&engine);
}

/* Catch-up over `rows` rows of the step that slot 0 started with, and the draft of the last one. */
static void run_drafts(struct engine_core *engine, const int32_t *tokens, int32_t rows) {
    int32_t row_numbers[64];
    float logits[TINY_VOCABULARY];
    for (int32_t i = 0; i < rows; i++) {
        row_numbers[i] = i;
    }
    struct step_segment segment = {0, 0, rows - 1, tokens + 1};
    struct draft_plan plan = {.segments = &segment, .segment_count = 1, .source_rows = row_numbers};
    plan.writes_state_only = true;
    EXPECT_OK(executor_run_draft(engine->executor, &plan, NULL));
    segment = (struct step_segment){0, rows - 1, 1, tokens};
    plan.source_rows = row_numbers + rows - 1;
    plan.writes_state_only = false;
    EXPECT_OK(executor_run_draft(engine->executor, &plan, logits));
}

/* The device holds weights, state and the memory of a step, before and after steps, and not a byte more. */
static void test_device_memory_is_planned(void **state) {
    const struct fixture *fixture = *state;
    static const char *const devices[] = {"cpu", "guard"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        int32_t tokens[64];
        options.device = devices[i];
        options.draft.limit = 2;
        struct engine_core *engine = model_open(&options);
        const struct sluice_memory_ledger *memory = &engine->facts.memory;
        size_t planned = memory->copied_weight_bytes + memory->slot_state_bytes + memory->snapshot_bytes +
                         memory->page_state_bytes + memory->step_bytes;
        assert_int_equal(device_memory_bytes(engine->device), planned);
        model_spec_tokens(tokens, 64);
        model_run(engine, 0, 0, tokens, 64, NULL);
        run_drafts(engine, tokens, 64);
        assert_int_equal(device_memory_bytes(engine->device), planned);
        engine_core_close(&engine);
    }
}

static void count_finished(void *context, struct sequence *sequence) {
    (void)sequence;
    ++*(int *)context;
}

/* Rounds allocate nothing, on the device or the host: prompts, choice, drafts, shared beginnings, ends. */
static void test_rounds_allocate_nothing(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = model_options(fixture->directory);
    struct sluice_request_options request = sluice_request_options_default();
    struct sequence sequences[4];
    struct engine_work work;
    struct engine_core *core;
    int32_t tokens[300];
    int finished = 0;
    model_spec_tokens(tokens, 300);
    options.thread_count = 2;
    options.sequence_limit = 3;
    options.step_token_limit = 100;
    options.has_prefix_cache = true;
    options.draft.limit = 2;
    EXPECT_OK(engine_core_open(&options, &core));
    EXPECT_OK(engine_work_init(&work, &core, count_finished, &finished));
    struct sequence_bounds bounds = engine_work_bounds(&work);
    request.prompt = tokens;
    request.token_limit = 150;
    request.log_probability_count = 5;
    request.sampling.frequency_penalty = 0.5;
    request.sampling.top_p = 0.9;
    for (int i = 0; i < 4; i++) {
        request.prompt_count = (size_t)(300 - 20 * i);
        EXPECT_OK(sequence_init(&sequences[i], &request, &bounds, 0.0));
        scheduler_submit(work.scheduler, &sequences[i]);
    }
    size_t before = allocation_count;
    size_t device_before = device_memory_bytes(work.core->device);
    while (engine_work_run(&work)) {
    }
    assert_int_equal(allocation_count, before);
    assert_int_equal(device_memory_bytes(work.core->device), device_before);
    assert_int_equal(finished, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sequences[i].finish_reason, SLUICE_FINISH_LENGTH);
        sequence_deinit(&sequences[i]);
    }
    engine_work_deinit(&work);
    assert_true(allocation_count > 0);
}

/* What opening took is gone after closing, also where opening failed half-way. */
static void test_closing_gives_all_back(void **state) {
    const struct fixture *fixture = *state;
    static const char *const devices[] = {"cpu", "guard"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        struct engine_core *engine;
        int32_t token = 3;
        options.device = devices[i];
        options.draft.limit = 1;
        options.thread_count = 2;
        long before = live_blocks;
        engine = model_open(&options);
        assert_true(live_blocks > before);
        model_run(engine, 0, 0, &token, 1, NULL);
        engine_core_close(&engine);
        assert_null(engine);
        assert_int_equal(live_blocks, before);
        options.model_directory = fixture->incomplete;
        assert_int_equal(engine_core_open(&options, &engine), SLUICE_BAD_CHECKPOINT);
        assert_int_equal(live_blocks, before);
        options.model_directory = fixture->directory;
        options.draft.limit = 17;
        assert_int_equal(engine_core_open(&options, &engine), SLUICE_OUT_OF_RANGE);
        assert_int_equal(live_blocks, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafting_off_costs_nothing),
        cmocka_unit_test(test_copied_weights_are_counted),
        cmocka_unit_test(test_steps_without_drafts_do_nothing_more),
        cmocka_unit_test(test_cold_rounds_do_nothing_more),
        cmocka_unit_test(test_drafts_copy_no_streams),
        cmocka_unit_test(test_drafting_on_costs_its_own_rows),
        cmocka_unit_test(test_state_bytes),
        cmocka_unit_test(test_device_memory_is_planned),
        cmocka_unit_test(test_rounds_allocate_nothing),
        cmocka_unit_test(test_closing_gives_all_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
