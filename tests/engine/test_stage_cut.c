/*
 * Cuts of the real model's layers at the design points of spec parallelism P-7, the metric of P-4 against a
 * sum of its own, and what users may ask for instead (P-2).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "engine/stage_cut.h"
#include "lib/json.h"
#include "model/model_registry.h"
#include "model/step_work.h"

enum { STAGES_MAX = 8, FLASH_LAYERS = 43, CONFIG_BYTES_MAX = 1 << 20 };

struct fixture {
    struct arena arena;
    struct model *model;
    struct sluice_engine_options options;
    int first_layers[STAGES_MAX + 1];
    double imbalance;
};

static void open_flash(struct fixture *fixture, int drafts, int sequences, int stages) {
    const struct model_family *family;
    const struct model_request request = {.draft_limit = drafts};
    struct json *config;
    *fixture = (struct fixture){.options = sluice_engine_options_default()};
    arena_init(&fixture->arena, 1 << 20);
    assert_int_equal(
        json_parse_file(SLUICE_SOURCE_DIR "/tests/golden/configs/flash.json", CONFIG_BYTES_MAX, &config),
        STATUS_OK);
    assert_int_equal(model_family_find(config, &family), STATUS_OK);
    assert_int_equal(family->create(&fixture->arena, config, &request, &fixture->model), STATUS_OK);
    json_free(&config);
    fixture->options.draft.limit = drafts;
    fixture->options.sequence_limit = sequences;
    fixture->options.parallel.pipeline = stages;
    fixture->options.parallel.in_flight = 1;
}

static enum status cut(struct fixture *fixture, const char *named) {
    snprintf(fixture->options.parallel.layer_partition, SLUICE_LAYER_PARTITION_BYTES, "%s", named);
    return stage_cut_choose(fixture->model, &fixture->options, fixture->first_layers, &fixture->imbalance);
}

static void expect_layers(const struct fixture *fixture, int count, const int *layers) {
    for (int s = 0; s < count; s++) {
        assert_int_equal(fixture->first_layers[s + 1] - fixture->first_layers[s], layers[s]);
    }
}

/*
 * With a draft P-3 has two rows where P-7 reckons with one row's experts: a layer then reads 0.31 GB, so that
 * head and draft layer, which weigh 2.4 GB, stand for 8 layers instead of 10, and the planner cuts 13, 12,
 * 13, 5 too.
 */
static void design_points_are_those_of_the_specification(void **state) {
    (void)state;
    static const struct {
        int drafts;
        int sequences;
        int layers[4];
    } cases[] = {{0, 1, {12, 12, 12, 7}}, {1, 1, {13, 12, 13, 5}}, {0, 256, {11, 11, 11, 10}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture fixture;
        open_flash(&fixture, cases[i].drafts, cases[i].sequences, 4);
        assert_int_equal(cut(&fixture, ""), STATUS_OK);
        expect_layers(&fixture, 4, cases[i].layers);
        assert_in_range((int)(fixture.imbalance * 1000), 1000, 1100);
        arena_deinit(&fixture.arena);
    }
}

/* Sequences in two groups are half as many in a step: the head weighs more again. */
static void groups_share_the_sequences(void **state) {
    (void)state;
    struct fixture fixture;
    int alone[5];
    open_flash(&fixture, 0, 2, 4);
    fixture.options.parallel.in_flight = 2;
    assert_int_equal(cut(&fixture, ""), STATUS_OK);
    memcpy(alone, fixture.first_layers, sizeof alone);
    fixture.options.sequence_limit = 1;
    fixture.options.parallel.in_flight = 1;
    assert_int_equal(cut(&fixture, ""), STATUS_OK);
    assert_memory_equal(alone, fixture.first_layers, sizeof alone);
    arena_deinit(&fixture.arena);
}

/* P-4: of a cut that a user named, from the bytes of all layers and of the head. */
static void imbalance_is_largest_over_mean(void **state) {
    (void)state;
    struct fixture fixture;
    struct weight_work all = {0};
    open_flash(&fixture, 0, 1, 2);
    struct tensor_spec_list list = {.arena = &fixture.arena};
    assert_int_equal(fixture.model->family->list_tensors(fixture.model, NULL, &list), STATUS_OK);
    weight_work_sum(fixture.model, &list, &all);
    assert_int_equal(cut(&fixture, "43,0"), STATUS_OK);
    expect_layers(&fixture, 2, (const int[]){43, 0});
    /* One row goes to as many experts as it picks. */
    double layers =
        all.dense_bytes + all.lookup_bytes + (double)fixture.model->expert_picks * all.expert_bytes;
    double expected = 2.0 * layers / (layers + all.head_bytes);
    assert_true(fabs(fixture.imbalance - expected) < 1e-6);
    assert_int_equal(cut(&fixture, "40,3"), STATUS_OK);
    assert_true(fixture.imbalance < expected);
    arena_deinit(&fixture.arena);
}

static void wrong_partitions_are_refused(void **state) {
    (void)state;
    struct fixture fixture;
    open_flash(&fixture, 0, 1, 4);
    assert_int_equal(cut(&fixture, "12,12,12"), STATUS_USAGE);
    assert_non_null(strstr(error_last()->message, "expected one for each of 4 stages"));
    assert_int_equal(cut(&fixture, "12,12,12,8"), STATUS_USAGE);
    assert_int_equal(cut(&fixture, "43,0,0,0"), STATUS_USAGE);
    fixture.options.parallel.pipeline = FLASH_LAYERS + 2;
    int first_layers[FLASH_LAYERS + 3];
    fixture.options.parallel.layer_partition[0] = '\0';
    assert_int_equal(stage_cut_choose(fixture.model, &fixture.options, first_layers, &fixture.imbalance),
                     STATUS_BAD_CONFIG);
    arena_deinit(&fixture.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(design_points_are_those_of_the_specification),
        cmocka_unit_test(groups_share_the_sequences),
        cmocka_unit_test(imbalance_is_largest_over_mean),
        cmocka_unit_test(wrong_partitions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
