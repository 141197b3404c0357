/*
 * What stages take, measured: against the time of whole steps, of the same kinds of layers, of more and fewer
 * rows; the steps that stand for those that are too large, and what follows from them (spec parallelism P-4).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/stage_probe.h"
#include "model/model_registry.h"
#include "support/model_fixture.h"

enum { LAYERS_MAX = 64, REPEATS = 20, FLASH_SEQUENCES = 64 };

static const char mini[] = SLUICE_SOURCE_DIR "/models/mini-v4";

struct fixture {
    struct engine_core *core; /* without weights */
    struct stage_bytes bytes;
    struct stage_probe probe;
    double layers[2][LAYERS_MAX];
    struct stage_costs costs[2];
};

static void open_fixture(struct fixture *fixture, const char *directory, int drafts, int sequences,
                         int64_t context) {
    struct sluice_engine_options options = model_options(directory);
    *fixture = (struct fixture){0};
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.context_tokens = context;
    options.draft.limit = drafts;
    options.sequence_limit = sequences;
    options.parallel.pipeline = 2;
    EXPECT_OK(engine_core_measure(&options, &fixture->core));
    assert_in_range(fixture->core->model->layer_count, 1, LAYERS_MAX);
    const struct stage_memory memory = {.states = &fixture->core->state_table,
                                        .pool = fixture->core->states.options};
    EXPECT_OK(stage_bytes_sum(fixture->core->model, NUMERICS_NATIVE, &memory, &fixture->bytes));
    fixture->probe = (struct stage_probe){
        .options = &fixture->core->options, .model = fixture->core->model, .thread_count = 1};
    for (int i = 0; i < 2; i++) {
        fixture->costs[i].layers = fixture->layers[i];
    }
}

static void close_fixture(struct fixture *fixture) {
    stage_bytes_deinit(&fixture->bytes);
    engine_core_close(&fixture->core);
}

static double sum_of(const struct fixture *fixture, const struct stage_costs *costs) {
    double sum = costs->first + costs->last;
    for (int l = 0; l < fixture->core->model->layer_count; l++) {
        assert_true(costs->layers[l] > 0.0);
        sum += costs->layers[l];
    }
    return sum;
}

/* The fastest step of so many sequences with a row each, on an engine with all layers, without a choice. */
static double seconds_of_step(const char *directory, int sequences) {
    struct sluice_engine_options options = model_options(directory);
    struct step_segment segments[LAYERS_MAX];
    struct step_page_update updates[LAYERS_MAX];
    int32_t rows[LAYERS_MAX];
    int32_t tokens[LAYERS_MAX];
    double best = INFINITY;
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.sequence_limit = sequences;
    struct engine_core *core = model_open(&options);
    float *logits = malloc((size_t)sequences * (size_t)core->model->vocabulary_size * sizeof *logits);
    assert_non_null(logits);
    model_random_tokens(5, TINY_VOCABULARY, tokens, sequences);
    for (int i = 0; i < sequences; i++) {
        segments[i] = (struct step_segment){.slot = i, .row_count = 1, .token_ids = &tokens[i]};
        updates[i] = (struct step_page_update){.slot = i, .page = i};
        rows[i] = i;
    }
    const struct step_plan plan = {.segments = segments,
                                   .segment_count = sequences,
                                   .logit_rows = rows,
                                   .logit_row_count = sequences,
                                   .page_updates = updates,
                                   .page_update_count = sequences};
    for (int i = 0; i < REPEATS; i++) {
        EXPECT_OK(executor_run(core->executor, &plan, logits));
        best = fmin(best, executor_step_seconds(core->executor));
    }
    free(logits);
    engine_core_close(&core);
    return best;
}

/* Parts that are measured alone add up to the step: within what two other tests at once make of it. */
static void parts_add_up_to_the_step(void **state) {
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, mini, 0, 8, 4096);
    const struct stage_point point = stage_point_of_decoding(8, 0);
    EXPECT_OK(stage_probe_measure(&fixture.probe, &fixture.bytes, &point, 1, fixture.costs));
    double sum = sum_of(&fixture, &fixture.costs[0]);
    double step = seconds_of_step(mini, 8);
    if (sum < step / 3 || sum > step * 3) {
        fail_msg("parts take %.6f s and the step %.6f s", sum, step);
    }
    close_fixture(&fixture);
}

/* compress_ratios of mini-v4: 0 128 4 128 4 128 4 0, the first two layers routed by hash. */
static void layers_of_a_kind_are_measured_once(void **state) {
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, mini, 0, 1, 4096);
    const struct stage_point point = stage_point_of_decoding(1, 0);
    EXPECT_OK(stage_probe_measure(&fixture.probe, &fixture.bytes, &point, 1, fixture.costs));
    const double *layers = fixture.layers[0];
    static const int kinds[] = {0, 1, 2, 3, 2, 3, 2, 7};
    int different = 0;
    for (int l = 0; l < 8; l++) {
        assert_true(layers[l] == layers[kinds[l]]);
        different += kinds[l] == l && l > 0 && layers[l] != layers[0];
    }
    assert_in_range(different, 2, 4); /* clocks may tell two kinds the same time, hardly three */
    close_fixture(&fixture);
}

/* A prompt of 384 rows against one of a row, and two drafts against none: head and draft layer run more. */
static void larger_steps_take_longer(void **state) {
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, mini, 2, 4, 4096);
    const struct stage_point prompts[] = {stage_point_of_prompt(384), stage_point_of_prompt(1)};
    EXPECT_OK(stage_probe_measure(&fixture.probe, &fixture.bytes, prompts, 2, fixture.costs));
    assert_true(sum_of(&fixture, &fixture.costs[0]) > 8 * sum_of(&fixture, &fixture.costs[1]));
    const struct stage_point steps[] = {stage_point_of_decoding(4, 2), stage_point_of_decoding(4, 0)};
    EXPECT_OK(stage_probe_measure(&fixture.probe, &fixture.bytes, steps, 2, fixture.costs));
    assert_true(fixture.costs[0].last > 2 * fixture.costs[1].last);
    close_fixture(&fixture);
}

/* Contexts too short for the drafts, more sequences than are run: every engine that opens is measured. */
static void every_size_can_be_measured(void **state) {
    static const struct {
        int drafts;
        int sequences;
        int64_t context;
    } cases[] = {{0, 1, 1}, {3, 2, 2}, {2, 5, 130}, {0, 200, 512}, {1, 3, 4096}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture fixture;
        open_fixture(&fixture, *state, cases[i].drafts, cases[i].sequences, cases[i].context);
        const struct stage_point points[] = {stage_point_of_decoding(cases[i].sequences, cases[i].drafts),
                                             stage_point_of_prompt(512)};
        EXPECT_OK(stage_probe_measure(&fixture.probe, &fixture.bytes, points, 2, fixture.costs));
        assert_true(isfinite(sum_of(&fixture, &fixture.costs[0])));
        assert_true(isfinite(sum_of(&fixture, &fixture.costs[1])));
        close_fixture(&fixture);
    }
}

/* A prompt as long as the model's longest context leaves no room behind another half of it. */
static void the_longest_context_is_enough(void **state) {
    (void)state;
    static const struct config_change change = {"max_position_embeddings", "256"};
    char directory[FIXTURE_PATH_BYTES];
    struct fixture fixture;
    fixture_make(directory);
    model_synthesise(directory, TINY_CONFIG, &change, 1);
    open_fixture(&fixture, directory, 0, 1, 256);
    const struct stage_point point = stage_point_of_prompt(256);
    EXPECT_OK(stage_probe_measure(&fixture.probe, &fixture.bytes, &point, 1, fixture.costs));
    close_fixture(&fixture);
    fixture_remove(directory);
}

/* "guard" has memory of its own, as a GPU does. */
static void layers_are_not_copied_to_be_measured(void **state) {
    struct fixture fixture;
    open_fixture(&fixture, *state, 0, 1, 4096);
    fixture.core->options.device = "guard";
    const struct stage_point point = stage_point_of_decoding(1, 0);
    fixture_expect_error(stage_probe_measure(&fixture.probe, &fixture.bytes, &point, 1, fixture.costs),
                         STATUS_UNSUPPORTED, "would have to be copied");
    close_fixture(&fixture);
}

/*
 * V4-Flash (B.2): a row goes to 6 of 256 experts of 13.4 MB each, so that 12 rows read some 64 of them. Half
 * a gigabyte holds fewer.
 */
static void large_steps_are_reduced(void **state) {
    (void)state;
    struct arena arena;
    const struct model_family *family;
    struct model *model;
    struct state_table states = {.arena = &arena};
    struct stage_bytes bytes;
    struct json *config = model_config_read("tests/golden/configs/flash.json", NULL, 0);
    const struct stage_memory memory = {
        .states = &states, .pool = {.sequence_slot_count = 1, .context_tokens = 4096, .page_tokens = 128}};
    const struct sluice_engine_options options = {.context_tokens = 4096};
    arena_init(&arena, 1 << 20);
    EXPECT_OK(model_family_find(config, &family));
    EXPECT_OK(family->create(&arena, config, &(struct model_request){.draft_limit = 1}, &model));
    EXPECT_OK(family->list_states(model, &states));
    EXPECT_OK(stage_bytes_sum(model, NUMERICS_NATIVE, &memory, &bytes));
    const struct stage_probe probe = {.options = &options, .model = model, .thread_count = 1};
    struct stage_point point = stage_point_of_decoding(FLASH_SEQUENCES, 1);
    struct stage_point reduced = stage_probe_reduce(&probe, &bytes, &point);
    assert_int_equal(reduced.rows_each, 2);
    assert_in_range(reduced.sequences, 1, 4);
    assert_true(stage_point_layer_work(&reduced, model, &bytes, 4).bytes <= 512 << 20);
    /* Six rows compute 3.6e9 operations, but 35 experts are 0.47 GB and what all rows read 0.15 GB more. */
    point = stage_point_of_decoding(96, 0);
    reduced = stage_probe_reduce(&probe, &bytes, &point);
    assert_int_equal(reduced.sequences, 3);
    point = stage_point_of_decoding(1, 1);
    reduced = stage_probe_reduce(&probe, &bytes, &point);
    assert_int_equal(reduced.sequences, 1);
    point = stage_point_of_prompt(512);
    reduced = stage_probe_reduce(&probe, &bytes, &point);
    assert_true(reduced.is_prompt);
    assert_in_range(reduced.rows_each, 1, 8);
    stage_bytes_deinit(&bytes);
    arena_deinit(&arena);
    json_free(&config);
}

static double follow(double small_seconds, double large_seconds) {
    const struct step_work small = {.bytes = 200, .operations = 10};
    const struct step_work large = {.bytes = 500, .operations = 80};
    const struct step_work wanted = {.bytes = 900, .operations = 640};
    return stage_probe_extrapolate(&small, small_seconds, &large, large_seconds, &wanted);
}

/* From rates that are known, and where only one of them explains anything. */
static void times_of_large_steps_follow_from_small_ones(void **state) {
    (void)state;
    static const double byte = 0.01;
    static const double operation = 0.25;
    assert_true(fabs(follow(200 * byte + 10 * operation, 500 * byte + 80 * operation) -
                     (900 * byte + 640 * operation)) < 1e-9);
    assert_true(fabs(follow(200 * byte, 500 * byte) - 900 * byte) < 1e-9);
    assert_true(fabs(follow(10 * operation, 80 * operation) - 640 * operation) < 1e-9);
    /* More than operations explain, less than bytes do: a byte below 0, an operation below 0. */
    assert_true(fabs(follow(1.0, 16.0) - 16.0 * 640 / 80) < 1e-9);
    assert_true(fabs(follow(4.0, 5.0) - 5.0 * 900 / 500) < 1e-9);
    /* The same step twice: in proportion to bytes; nothing to go by: as it was. */
    const struct step_work step = {.bytes = 500, .operations = 80};
    const struct step_work none = {0};
    const struct step_work wanted = {.bytes = 1000, .operations = 640};
    assert_true(fabs(stage_probe_extrapolate(&step, 2.0, &step, 2.0, &wanted) - 4.0) < 1e-9);
    assert_true(fabs(stage_probe_extrapolate(&none, 2.0, &none, 3.0, &none) - 3.0) < 1e-9);
}

static void expect_split(double small_seconds, double large_seconds, double bytes, double operations) {
    const struct step_work small = {.bytes = 200, .operations = 10};
    const struct step_work large = {.bytes = 500, .operations = 80};
    double bytes_per_second;
    double operations_per_second;
    stage_probe_split(&small, small_seconds, &large, large_seconds, &bytes_per_second,
                      &operations_per_second);
    assert_true(fabs(bytes_per_second / bytes - 1) < 1e-9);
    assert_true(fabs(operations_per_second / operations - 1) < 1e-9);
}

/* S-13, S-15: rates that are known are found again; of what does not show, what there was at least. */
static void rates_follow_from_two_steps(void **state) {
    (void)state;
    expect_split(200 / 100.0 + 10 / 4.0, 500 / 100.0 + 80 / 4.0, 100, 4);
    expect_split(200 / 100.0, 500 / 100.0, 100, 80 / 5.0);
    expect_split(10 / 4.0, 80 / 4.0, 200 / 2.5, 4);
    expect_split(1.0, 16.0, 200, 5);       /* a byte below 0 */
    expect_split(4.0, 5.0, 100, 80 / 5.0); /* an operation below 0 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_the_step),
        cmocka_unit_test(layers_of_a_kind_are_measured_once),
        cmocka_unit_test(larger_steps_take_longer),
        cmocka_unit_test(every_size_can_be_measured),
        cmocka_unit_test(the_longest_context_is_enough),
        cmocka_unit_test(layers_are_not_copied_to_be_measured),
        cmocka_unit_test(large_steps_are_reduced),
        cmocka_unit_test(times_of_large_steps_follow_from_small_ones),
        cmocka_unit_test(rates_follow_from_two_steps),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
