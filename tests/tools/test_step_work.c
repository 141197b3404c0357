/*
 * Floors of the benchmark configurations against numbers worked out from the specification's tables
 * (deepseek-v4 3.2 and 5.1) by an independent program, and the formula for distinct experts against the
 * values of parallelism M-30.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/state_table.h"
#include "model/step_work.h"
#include "tools/model_listing.h"

/* Positions at the start, past the window, and where the indexer has not and has more than it may choose. */
enum { ROWS = 4 };

struct expectation {
    const char *config;
    double dense_bytes, dense_operations;
    double head_bytes, head_operations;
    double lookup_bytes;
    double expert_bytes, expert_operations;
    struct {
        int64_t position;
        double operations, state_bytes;
    } rows[ROWS];
};

static const struct expectation expectations[] = {
    {SLUICE_SOURCE_DIR "/bench/configs/bench-s.json",
     126772944,
     229986304,
     67176468,
     67141632,
     2096,
     5013504,
     18874368,
     {{0, 196608, 52656}, {128, 27590656, 540560}, {2047, 63963136, 1184000}, {8191, 79691776, 1448960}}},
    {SLUICE_SOURCE_DIR "/bench/configs/bench-m.json",
     353636752,
     661016576,
     134352916,
     134283264,
     4144,
     20054016,
     75497472,
     {{0, 393216, 52656}, {128, 54919168, 540560}, {2047, 123731968, 1184000}, {8191, 142606336, 1448960}}},
    {SLUICE_SOURCE_DIR "/bench/configs/flash-4l.json",
     618034016,
     1156730880,
     1059332116,
     1059192832,
     8240,
     53477376,
     201326592,
     {{0, 524288, 47392}, {128, 76677120, 386376}, {2047, 220200960, 1021056}, {8191, 276824064, 1257984}}},
};

enum { EXPECTATION_COUNT = sizeof expectations / sizeof expectations[0], STATES_MAX = 64 };

struct fixture {
    struct model_listing listing;
    struct state_table table;
    struct state_rows states[STATES_MAX];
    double rows_read[STATES_MAX];
};

static void open_config(const char *path, struct fixture *fixture) {
    *fixture = (struct fixture){0};
    if (model_listing_read(path, NULL, &fixture->listing) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    struct model *model = fixture->listing.model;
    fixture->table.arena = &fixture->listing.arena;
    assert_int_equal(model->family->list_states(model, &fixture->table), STATUS_OK);
    assert_in_range(fixture->table.count, 1, STATES_MAX);
    for (int i = 0; i < fixture->table.count; i++) {
        const struct state_kind *kind = &fixture->table.kinds[i];
        struct row_layout layout =
            numerics_row_layout(NUMERICS_NATIVE, kind->row, kind->width, kind->plain_width);
        fixture->states[i] = (struct state_rows){.layout = layout, .row_bytes = row_layout_bytes(&layout)};
    }
}

/* The work of one step of `rows` rows in one sequence. */
static struct step_work work_of(struct fixture *fixture, int64_t segments, int64_t rows, int64_t position,
                                int64_t logit_rows) {
    struct weight_work weights;
    struct step_work sum = {0};
    const struct step_shape shape = {segments, rows, position, logit_rows};
    weight_work_sum(fixture->listing.model, &fixture->listing.list, &weights);
    step_work_add(fixture->listing.model, &weights, fixture->states, fixture->table.count, &shape,
                  fixture->rows_read, &sum);
    return sum;
}

static void expect_near(double actual, double expected) {
    if (fabs(actual - expected) > 1e-9 * fabs(expected)) {
        fail_msg("%.3f instead of %.3f", actual, expected);
    }
}

static void weights_match_the_specification(void **state) {
    (void)state;
    for (size_t i = 0; i < EXPECTATION_COUNT; i++) {
        const struct expectation *expected = &expectations[i];
        struct fixture fixture;
        struct weight_work work;
        open_config(expected->config, &fixture);
        weight_work_sum(fixture.listing.model, &fixture.listing.list, &work);
        expect_near(work.dense_bytes, expected->dense_bytes);
        expect_near(work.dense_operations, expected->dense_operations);
        expect_near(work.head_bytes, expected->head_bytes);
        expect_near(work.head_operations, expected->head_operations);
        expect_near(work.lookup_bytes, expected->lookup_bytes);
        expect_near(work.expert_bytes, expected->expert_bytes);
        expect_near(work.expert_operations, expected->expert_operations);
        model_listing_deinit(&fixture.listing);
    }
}

static void rows_match_the_specification(void **state) {
    (void)state;
    for (size_t i = 0; i < EXPECTATION_COUNT; i++) {
        const struct expectation *expected = &expectations[i];
        struct fixture fixture;
        open_config(expected->config, &fixture);
        const struct model *model = fixture.listing.model;
        for (size_t r = 0; r < ROWS; r++) {
            double operations =
                model->family->describe_row_work(model, expected->rows[r].position, fixture.rows_read);
            double bytes = 0.0;
            for (int s = 0; s < fixture.table.count; s++) {
                bytes += fixture.rows_read[s] * (double)fixture.states[s].row_bytes;
            }
            expect_near(operations, expected->rows[r].operations);
            expect_near(bytes, expected->rows[r].state_bytes);
        }
        model_listing_deinit(&fixture.listing);
    }
}

/* One decoded token reads each part once, and one row's experts. */
static void a_decode_step_is_the_sum_of_its_parts(void **state) {
    (void)state;
    const struct expectation *expected = &expectations[1];
    struct fixture fixture;
    open_config(expected->config, &fixture);
    struct step_work one = work_of(&fixture, 1, 1, 128, 1);
    expect_near(one.bytes, expected->dense_bytes + expected->head_bytes + expected->lookup_bytes +
                               6 * expected->expert_bytes + expected->rows[1].state_bytes);
    expect_near(one.operations, expected->dense_operations + expected->head_operations +
                                    6 * expected->expert_operations + expected->rows[1].operations);
    /* 608 MB: what a person counted for this configuration. */
    assert_true(fabs(one.bytes - 608e6) < 1e6);
    /* Eight sequences share the weights, but not experts and state. */
    struct step_work eight = work_of(&fixture, 8, 1, 128, 8);
    double experts = 64.0 * (1.0 - pow(1.0 - 6.0 / 64.0, 8.0));
    expect_near(eight.bytes, expected->dense_bytes + expected->head_bytes + 8 * expected->lookup_bytes +
                                 experts * expected->expert_bytes + 8 * expected->rows[1].state_bytes);
    expect_near(eight.operations, 8 * one.operations);
    model_listing_deinit(&fixture.listing);
}

/* A prompt's first step reads no state; without logits it reads no head. */
static void prefill_counts_state_and_head_where_they_are_read(void **state) {
    (void)state;
    const struct expectation *expected = &expectations[0];
    struct fixture fixture;
    open_config(expected->config, &fixture);
    double experts = step_work_distinct_experts(64, 6, 32);
    struct step_work first = work_of(&fixture, 1, 32, 0, 0);
    expect_near(first.bytes,
                expected->dense_bytes + 32 * expected->lookup_bytes + experts * expected->expert_bytes);
    struct step_work later = work_of(&fixture, 1, 32, 128, 1);
    expect_near(later.bytes, first.bytes + expected->head_bytes + expected->rows[1].state_bytes);
    /* Rows of one segment differ by their positions: more keys, more operations. */
    assert_true(later.operations > first.operations + expected->head_operations);
    model_listing_deinit(&fixture.listing);
}

static void distinct_experts_are_those_of_the_specification(void **state) {
    (void)state;
    static const double flash[] = {6.0, 11.9, 17.6, 23.2};
    for (int rows = 1; rows <= 4; rows++) {
        assert_true(fabs(step_work_distinct_experts(256, 6, rows) - flash[rows - 1]) < 0.05);
    }
    assert_true(fabs(step_work_distinct_experts(256, 6, 64) - 200.0) < 1.0);
    assert_true(step_work_distinct_experts(0, 0, 5) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_match_the_specification),
        cmocka_unit_test(rows_match_the_specification),
        cmocka_unit_test(a_decode_step_is_the_sum_of_its_parts),
        cmocka_unit_test(prefill_counts_state_and_head_where_they_are_read),
        cmocka_unit_test(distinct_experts_are_those_of_the_specification),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
