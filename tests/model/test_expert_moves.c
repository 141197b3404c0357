/* Experts that move while steps run: when, whereto, and what it takes (spec parallelism 5.5, E-13 to E-17).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/executor_internal.h"
#include "model/deepseek_v4/deepseek_v4.h"
#include "support/model_fixture.h"

enum { LAYERS = 8, EXPERTS = 8, PICKS = 2, ROWS = 12, INTERVAL = 4 };

static struct sluice_engine_options options_of(int tensor, bool moves, int copies) {
    struct sluice_engine_options options = model_options(layout_fixture_directory());
    options.step_token_limit = 2 * ROWS;
    options.sequence_limit = ROWS; /* that many rows may ask for logits */
    options.parallel = (struct sluice_parallel_options){.pipeline = 1,
                                                        .tensor = tensor,
                                                        .has_expert_parallelism = true,
                                                        .row_sharing = SLUICE_ROW_SHARING_ON,
                                                        .has_movable_experts = moves,
                                                        .expert_copies = copies,
                                                        .expert_move_interval = INTERVAL};
    return options;
}

static const struct expert_balance *balance_of(const struct engine_core *engine) {
    return &engine->executor->options.ranks->balance;
}

static bool has_moved(const struct expert_balance *balance) {
    for (int i = 0; i < balance->shape.layer_count * EXPERTS; i++) {
        uint64_t start = 0;
        for (int rank = 0; rank < balance->shape.rank_count; rank++) {
            start |= (uint64_t)expert_balance_starts_with(&balance->shape, rank, i % EXPERTS) << rank;
        }
        if (balance->holders[i] != start) {
            return true;
        }
    }
    return false;
}

static uint64_t count_picks(const struct expert_balance *balance) {
    uint64_t sum = 0;
    for (int i = 0; i < balance->shape.layer_count * EXPERTS; i++) {
        sum += balance->counts[i];
    }
    return sum;
}

static double mean_skew(const struct expert_balance *balance) {
    double sum = 0.0;
    for (int layer = 0; layer < LAYERS; layer++) {
        sum += expert_balance_skew(balance, layer, balance->holders + layer * EXPERTS);
    }
    return sum / LAYERS;
}

/* Of the placement that was just chosen: how uneven the one before was, and what the first rank gets of
 * others. */
static void expect_told(const struct engine_core *engine, double imbalance) {
    const struct expert_balance *balance = balance_of(engine);
    struct rank_report report;
    int64_t moves = 0;
    for (int i = 0; i < balance->shape.layer_count * EXPERTS; i++) {
        moves += (balance->next_holders[i] & 1) > (balance->holders[i] & 1);
    }
    executor_report(engine->executor, &report);
    assert_float_equal(report.stats.expert_imbalance, imbalance, 1e-9);
    assert_int_equal(report.stats.expert_moves, moves);
    assert_true(moves > 0);
}

/*
 * D-4: the same token over and over goes to the same few experts: these are spread, at the announced step and
 * not before, and no logit notices.
 */
static void experts_move_to_where_there_is_less_to_do(void **state) {
    (void)state;
    static float expected[ROWS * TINY_VOCABULARY];
    static float actual[ROWS * TINY_VOCABULARY];
    int32_t tokens[ROWS];
    for (int i = 0; i < ROWS; i++) {
        tokens[i] = 7;
    }
    struct sluice_engine_options alone_options = options_of(1, false, 0);
    struct sluice_engine_options options = options_of(2, true, 2);
    struct engine_core *alone = model_open(&alone_options);
    struct engine_core *engine = model_open(&options);
    const struct expert_balance *balance = balance_of(engine);
    double before = 0.0;
    for (int step = 1; step <= 2 * INTERVAL; step++) {
        model_run(alone, 0, (step - 1) * ROWS, tokens, ROWS, expected);
        model_run(engine, 0, (step - 1) * ROWS, tokens, ROWS, actual);
        model_expect_same_logits(actual, expected, ROWS, TINY_VOCABULARY, "moving experts");
        if (step < INTERVAL) {
            /* Every row of every layer, of the first, which has them by token id, too (E-16), picks once. */
            assert_int_equal(count_picks(balance), (uint64_t)step * ROWS * PICKS * LAYERS);
            before = mean_skew(balance);
        }
        if (step == INTERVAL) {
            expect_told(engine, before);
        }
        assert_true(has_moved(balance) == (step >= 2 * INTERVAL - 1));
    }
    assert_true(mean_skew(balance) < before - 0.1);
    engine_core_close(&engine);
    engine_core_close(&alone);
}

/* E-15: a rank takes its places' worth of weights, wherever experts are; what it may read besides is mapped.
 */
static void ranks_hold_their_places(void **state) {
    (void)state;
    struct sluice_engine_options fixed_options = options_of(2, false, 0);
    struct sluice_engine_options options = options_of(2, true, 0);
    struct sluice_engine_options more_options = options_of(2, true, 2);
    struct engine_core *fixed = model_open(&fixed_options);
    struct engine_core *moving = model_open(&options);
    struct engine_core *more = model_open(&more_options);
    const struct deepseek_v4 *model = deepseek_v4_of(moving->model);
    size_t expert = weight_data_bytes(&model->layers[0].expert_gate[0]);
    /* Those of layout-v4 are just large enough to be mapped, their scales are not. */
    assert_true(expert >= 65536);
    assert_int_equal(moving->weights.mapped_bytes, fixed->weights.mapped_bytes);
    assert_int_equal(more->weights.mapped_bytes, fixed->weights.mapped_bytes + LAYERS * 3 * expert);
    assert_int_equal(moving->model->held_experts, EXPERTS);
    assert_int_equal(fixed->model->held_experts, EXPERTS / 2);
    engine_core_close(&fixed);
    engine_core_close(&moving);
    engine_core_close(&more);
}

static void expect_refusal(struct sluice_engine_options options, enum status status, const char *text) {
    struct engine_core *engine = NULL;
    assert_int_equal(engine_core_open(&options, &engine), status);
    if (strstr(error_last()->message, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, error_last()->message);
    }
    assert_null(engine);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    struct sluice_engine_options options = options_of(2, true, 9);
    expect_refusal(options, STATUS_OUT_OF_RANGE, "8 experts have 0 to 8 on 2 ranks");
    options = options_of(2, true, 0);
    options.parallel.expert_move_interval = 1;
    expect_refusal(options, STATUS_OUT_OF_RANGE, "every 1 steps");
    options = options_of(2, true, 0);
    options.parallel.has_expert_parallelism = false;
    expect_refusal(options, STATUS_UNSUPPORTED, "whole experts");
    options = options_of(2, true, 0);
    options.device = "guard";
    expect_refusal(options, STATUS_UNSUPPORTED, "\"guard\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_move_to_where_there_is_less_to_do),
        cmocka_unit_test(ranks_hold_their_places),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
