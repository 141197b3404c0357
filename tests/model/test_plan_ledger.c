/* What is planned without weights is what an engine takes (promise P7), and files are checked beforehand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "tools/plan_memory.h"
#include "tools/plan_run.h"
#include "weights/fixture.h"

static char directory[FIXTURE_PATH_BYTES];

static char draftless[FIXTURE_PATH_BYTES];

static int set_up(void **state) {
    (void)state;
    const struct checkpoint_edit no_draft_tensors = {.left_out = "mtp.*"};
    fixture_make(directory);
    fixture_make(draftless);
    model_synthesise(directory, TINY_CONFIG, NULL, 0);
    checkpoint_copy_edited(directory, draftless, &no_draft_tensors);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(directory);
    fixture_remove(draftless);
    return 0;
}

static void expect_ledger(struct sluice_engine_options options) {
    char path[FIXTURE_PATH_BYTES + 16];
    struct plan_model model;
    struct plan_machine machine;
    struct plan_step_bytes step;
    struct plan plan;
    const struct plan_machine_request machine_request = {.hosts = "1x64GB", .memory_share = 0.9};
    struct plan_request request = plan_request_default();
    struct engine_core *engine = model_open(&options);
    const struct sluice_memory_ledger *ledger = &engine->facts.memory;
    request.numerics = (enum numerics)options.numerics;
    request.context_tokens = options.context_tokens;
    request.sequence_limit = options.sequence_limit;
    request.step_tokens = options.step_token_limit;
    request.draft_limit = options.draft.limit;
    request.has_prefix_cache = options.has_prefix_cache;
    snprintf(path, sizeof path, "%s/config.json", directory);
    EXPECT_OK(plan_model_read(path, NULL, request.draft_limit, &model));
    EXPECT_OK(plan_machine_read(&machine_request, &machine));
    EXPECT_OK(plan_step_measure(&model, &request, &step));
    EXPECT_OK(plan_make(&model, &machine, &request, &step, &plan));
    const struct plan_stage *stage = &plan.stages[0];
    /* Small tensors are copied to multiples of 64 bytes. */
    uint64_t loaded = ledger->mapped_weight_bytes + ledger->copied_weight_bytes;
    assert_in_range(loaded - plan_stage_weight_bytes(stage), 0, 63 * engine->tensors.count);
    assert_int_equal((uint64_t)options.sequence_limit * stage->slot_bytes, ledger->slot_state_bytes);
    assert_int_equal((uint64_t)plan_snapshot_count(&request) * stage->snapshot_bytes, ledger->snapshot_bytes);
    assert_int_equal(stage->page_bytes, engine->states.page_bytes);
    assert_int_equal(stage->state_fixed_bytes, state_pool_bytes(&engine->states, 0));
    assert_int_equal(stage->boundary_bytes + stage->step_bytes + stage->draft_bytes, ledger->step_bytes);
    assert_int_equal(stage->draft_bytes, executor_draft_bytes(engine->executor));
    plan_deinit(&plan);
    plan_model_deinit(&model);
    engine_core_close(&engine);
}

static void plan_and_ledger_agree(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct sluice_engine_options options = model_options(directory);
        options.cpu_features = "auto";
        options.numerics = i % 2 == 0 ? SLUICE_NUMERICS_NATIVE : SLUICE_NUMERICS_IDEAL;
        options.draft.limit = i / 2 % 3;
        options.has_prefix_cache = i / 6 == 1;
        options.sequence_limit = 1 + i;
        options.step_token_limit = 16 + 37 * i;
        expect_ledger(options);
    }
}

static struct plan_job job_of(const char *model_directory, int draft_limit) {
    struct plan_job job = {.model_directory = model_directory,
                           .machine = {.hosts = "1x64GB", .memory_share = 0.9},
                           .request = plan_request_default()};
    job.request.draft_limit = draft_limit;
    return job;
}

static void expect_refusal(const struct plan_job *job, const char *const *words) {
    struct string_buffer report = {0};
    assert_int_not_equal(plan_run(job, &report), STATUS_OK);
    assert_int_equal(report.length, 0);
    for (; *words != NULL; words++) {
        if (strstr(error_last()->message, *words) == NULL) {
            fail_msg("\"%s\" is not in: %s", *words, error_last()->message);
        }
    }
    string_buffer_deinit(&report);
}

/* CFG-10: with drafts the missing tensors are named; without it can be planned. */
static void missing_draft_tensors_are_named(void **state) {
    (void)state;
    struct string_buffer report = {0};
    struct plan_job job = job_of(draftless, 2);
    expect_refusal(&job, (const char *const[]){"num_speculative_tokens 2", "mtp.0.", "lacks", NULL});
    job = job_of(draftless, 0);
    EXPECT_OK(plan_run(&job, &report));
    string_buffer_clear(&report);
    job = job_of(directory, 2);
    EXPECT_OK(plan_run(&job, &report));
    string_buffer_deinit(&report);
}

/* CFG-19: a vocabulary that the tables of expert ids do not have. */
static void tables_must_fit_the_vocabulary(void **state) {
    (void)state;
    const struct config_change vocabulary = {"vocab_size", "640"};
    model_replace_config(draftless, TINY_CONFIG, &vocabulary, 1);
    struct plan_job job = job_of(draftless, 0);
    expect_refusal(&job, (const char *const[]){"tid2eid", "512 rows", "640 entries", NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_and_ledger_agree),
        cmocka_unit_test(missing_draft_tensors_are_named),
        cmocka_unit_test(tables_must_fit_the_vocabulary),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
