/* The controller's parts: cost curves, acceptance, the choice against all choices, the guard. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/draft_controller_acceptance.h"
#include "engine/draft_controller_choice.h"
#include "engine/draft_controller_costs.h"
#include "engine/draft_controller_guard.h"
#include "engine/draft_controller_phases.h"

static void assert_near(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) {
        fail_msg("%.6f instead of %.6f", value, expected);
    }
}

static void curve_is_linear_between_measurements(void **state) {
    (void)state;
    struct cost_curve curve = {0};
    assert_near(cost_curve_at(&curve, 5), 0, 0);
    cost_curve_observe(&curve, 8, 3.0);
    assert_near(cost_curve_at(&curve, 100), 3.0, 1e-9);
    cost_curve_observe(&curve, 32, 9.0);
    assert_near(cost_curve_at(&curve, 32), 9.0, 1e-9);
    double at_8 = cost_curve_at(&curve, 8);
    double slope = (9.0 - at_8) / 24;
    static const int32_t rows[] = {8, 11, 16, 23, 31, 64, 100, 20000};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_near(cost_curve_at(&curve, rows[i]), at_8 + slope * (rows[i] - 8), 1e-6);
    }
    assert_near(cost_curve_at(&curve, 0), 0, 0);
}

/* One slow tick of a known cost moves it by half a percent; a lasting change is learned within 12 ticks. */
static void curve_tells_outliers_from_changes(void **state) {
    (void)state;
    struct cost_curve curve = {0};
    for (int i = 0; i < 100; i++) {
        cost_curve_observe(&curve, 4, 1.0);
    }
    cost_curve_observe(&curve, 4, 3.0);
    assert_near(cost_curve_at(&curve, 4), 1.0, 0.0051);
    for (int i = 0; i < 12; i++) {
        cost_curve_observe(&curve, 4, 2.0);
    }
    assert_near(cost_curve_at(&curve, 4), 2.0, 0.1);
    for (int i = 0; i < 12; i++) {
        cost_curve_observe(&curve, 4, 0.5);
    }
    assert_near(cost_curve_at(&curve, 4), 0.5, 0.05);
}

static void curve_rises_with_rows(void **state) {
    (void)state;
    struct cost_curve curve = {0};
    for (int32_t i = 0; i < 500; i++) {
        int32_t rows = 1 + i * 7 % 200;
        cost_curve_observe(&curve, rows, 1 + 0.01 * rows + 0.5 * (i * 5 % 3));
    }
    for (int32_t rows = 1; rows < 400; rows++) {
        assert_true(cost_curve_at(&curve, rows + 1) >= cost_curve_at(&curve, rows) - 1e-9);
        assert_true(cost_curve_at(&curve, rows) > 0);
    }
}

static void long_contexts_start_from_short_ones(void **state) {
    (void)state;
    struct draft_costs costs = {0};
    draft_costs_observe_step(&costs, 1, 100, 1.0, false);
    draft_costs_observe_step(&costs, 16, 100, 4.0, false);
    assert_near(cost_curve_at(draft_costs_step(&costs, 1000000), 16), 4.0, 1e-9);
    draft_costs_observe_step(&costs, 16, 1000000, 6.0, false);
    assert_true(cost_curve_at(draft_costs_step(&costs, 1000000), 16) > 4.5);
    assert_near(cost_curve_at(draft_costs_step(&costs, 100), 16), 4.0, 1e-9);
}

/*
 * A machine that is half as fast for a while says nothing about rows: the curve keeps its ratios, and what
 * the controller compares is free of it. Only where a tick is part of an experiment the difference is the
 * rows'.
 */
static void slow_machine_leaves_the_curve_alone(void **state) {
    (void)state;
    struct draft_costs costs = {0};
    for (int i = 0; i < 20; i++) {
        draft_costs_observe_step(&costs, 64, 100, 4.0, false);
        draft_costs_observe_step(&costs, 256, 100, 16.0, false);
    }
    for (int i = 0; i < 100; i++) {
        draft_costs_observe_step(&costs, 64, 100, 8.0, false);
    }
    const struct cost_curve *step = draft_costs_step(&costs, 100);
    assert_near(cost_curve_at(step, 256) / cost_curve_at(step, 64), 4.0, 0.15);
    assert_near(draft_costs_at_curve_speed(&costs, 8.0), cost_curve_at(step, 64), 0.1);
    for (int i = 0; i < 30; i++) {
        draft_costs_observe_step(&costs, 256, 100, 16.0, true);
    }
    assert_near(cost_curve_at(step, 256) / cost_curve_at(step, 64), 2.0, 0.1);
}

/* One tick that takes ten times as long is an accident, on either side of what is learned from it. */
static void accidents_change_nothing(void **state) {
    (void)state;
    struct draft_costs costs = {0};
    for (int i = 0; i < 1000; i++) {
        draft_costs_observe_step(&costs, 64, 100, i % 50 == 49 ? 40.0 : 4.0, false);
    }
    assert_near(cost_curve_at(draft_costs_step(&costs, 100), 64), 4.0, 0.05);
    assert_near(costs.slowness, 1.0, 0.01);
}

/* 0.2 for catching up, 0.5 for the first pass, 0.3 for each later one. */
static void passes_are_told_apart(void **state) {
    (void)state;
    static const int32_t rows[] = {4, 4, 4, 2};
    struct draft_costs costs = {0};
    const double seconds[] = {0.2, 0.7, 1.0, 1.3};
    for (int32_t count = 0; count < 4; count++) {
        struct draft_passes passes = {4, 0, count, rows};
        draft_costs_observe_passes(&costs, &passes, seconds[count]);
    }
    for (int32_t count = 0; count < 4; count++) {
        struct draft_passes passes = {4, 0, count, rows};
        assert_near(draft_costs_passes(&costs, &passes), seconds[count], 1e-9);
    }
    assert_near(cost_curve_at(&costs.later_pass, 4), 0.3, 1e-9);
}

/* With many rows of prompts the passes are what they were: catching up took the rest. */
static void prompts_measure_catching_up(void **state) {
    (void)state;
    static const int32_t rows[] = {4, 4};
    struct draft_costs costs = {0};
    const double seconds[] = {0.2, 0.7, 1.0};
    for (int32_t count = 0; count < 3; count++) {
        draft_costs_observe_passes(&costs, &(struct draft_passes){4, 0, count, rows}, seconds[count]);
    }
    draft_costs_observe_passes(&costs, &(struct draft_passes){4, 64, 2, rows}, 1.0 + 3.2);
    assert_near(costs.prompt_row_seconds, 0.05, 1e-9);
    assert_near(cost_curve_at(&costs.catch_up, 4), 0.2, 1e-9);
    assert_near(cost_curve_at(&costs.first_pass, 4), 0.5, 1e-9);
    assert_near(cost_curve_at(&costs.later_pass, 4), 0.3, 1e-9);
    /* One tick that takes ten times as long changes little, and one that takes nothing not the sign. */
    draft_costs_observe_passes(&costs, &(struct draft_passes){4, 64, 2, rows}, 1.0 + 32);
    assert_near(costs.prompt_row_seconds, 0.055, 1e-9);
    draft_costs_observe_passes(&costs, &(struct draft_passes){4, 64, 2, rows}, 0.1);
    assert_near(costs.prompt_row_seconds, 0.0495, 1e-9);
}

/* Every token pays its share of the prompts' rows in the draft layer; answers that begin have 64 in advance.
 */
static void tokens_pay_for_prompts(void **state) {
    (void)state;
    struct draft_costs costs = {0};
    draft_costs_note_prompts(&costs, 128, 0);
    assert_near(draft_costs_prompt_share(&costs, 2), 0, 0);
    draft_costs_observe_passes(&costs, &(struct draft_passes){0, 64, 0, NULL}, 6.4);
    assert_near(draft_costs_prompt_share(&costs, 2), 0.1 * 128 / (2 * 64), 1e-9);
    for (int tick = 0; tick < 64; tick++) {
        draft_costs_note_prompts(&costs, 0, 2);
    }
    assert_near(draft_costs_prompt_share(&costs, 2), 0.1 * 128 / (4 * 64), 0.1 * 128 / (4 * 64) * 0.05);
    for (int tick = 0; tick < 10000; tick++) {
        draft_costs_note_prompts(&costs, tick % 100 == 0 ? 128 : 0, 2);
    }
    assert_near(draft_costs_prompt_share(&costs, 2), 0.1 * 128 / 200, 0.1 * 128 / 200 * 0.15);
}

/* Rounds of two drafts in which `first` and then `second` of ten are accepted. */
static void observe_rounds(struct draft_acceptance *acceptance, int32_t slot, int rounds, int first,
                           int second) {
    for (int i = 0; i < rounds; i++) {
        int32_t accepted = i * 7 % 10 >= first ? 0 : i * 3 % 10 >= second ? 1 : 2;
        draft_acceptance_observe(acceptance, slot, 2, accepted);
        draft_acceptance_end_tick(acceptance, 2);
    }
}

static void acceptance_is_learned_by_class_and_position(void **state) {
    (void)state;
    struct draft_acceptance acceptance;
    float chances[2];
    float before[2];
    assert_int_equal(draft_acceptance_init(&acceptance, 2), STATUS_OK);
    draft_acceptance_start(&acceptance, 0, 0.7, true);
    draft_acceptance_start(&acceptance, 1, 0, true);
    draft_acceptance_chances(&acceptance, 1, 2, before);
    observe_rounds(&acceptance, 0, 2000, 6, 10);
    draft_acceptance_chances(&acceptance, 0, 2, chances);
    assert_near(chances[0], 0.6, 0.03);
    assert_near(chances[1], 0.6, 0.03);
    draft_acceptance_chances(&acceptance, 1, 2, chances);
    assert_near(chances[0], before[0], 1e-6);
    draft_acceptance_start(&acceptance, 1, 1.0, true);
    draft_acceptance_chances(&acceptance, 1, 2, chances);
    assert_near(chances[0], 0.6, 0.03);
    draft_acceptance_deinit(&acceptance);
}

static void doubtful_and_confident_sequences_part(void **state) {
    (void)state;
    struct draft_acceptance acceptance;
    float chances[2];
    assert_int_equal(draft_acceptance_init(&acceptance, 2), STATUS_OK);
    draft_acceptance_start(&acceptance, 0, 0, true);
    draft_acceptance_start(&acceptance, 1, 0, true);
    for (int i = 0; i < 40; i++) {
        observe_rounds(&acceptance, 0, 10, 9, 9);
        observe_rounds(&acceptance, 1, 10, 1, 9);
    }
    draft_acceptance_chances(&acceptance, 0, 2, chances);
    assert_true(chances[0] > 0.75);
    draft_acceptance_chances(&acceptance, 1, 2, chances);
    assert_true(chances[0] < 0.25);
    draft_acceptance_deinit(&acceptance);
}

/* A failure just after a pause says less than one from a full window. */
static void failures_of_a_filling_window_count_less(void **state) {
    (void)state;
    float after[2];
    for (int has_state = 0; has_state < 2; has_state++) {
        struct draft_acceptance acceptance;
        assert_int_equal(draft_acceptance_init(&acceptance, 1), STATUS_OK);
        draft_acceptance_start(&acceptance, 0, 0, has_state != 0);
        observe_rounds(&acceptance, 0, 10, 0, 0);
        draft_acceptance_chances(&acceptance, 0, 1, &after[has_state]);
        draft_acceptance_deinit(&acceptance);
    }
    assert_true(after[0] > after[1] + 0.2F);
}

enum { CHOICE_SEQUENCES = 3, CHOICE_LIMIT = 3 };

/* Costs that lie on the curves' points and lines: 1 + rows / 10 a step, passes 0.02 and 0.01 a row. */
static void set_costs(struct draft_costs *costs, double per_row) {
    for (int32_t rows = 1; rows <= 256; rows *= 2) {
        draft_costs_set_step(costs, rows, 1 + per_row * rows);
        cost_curve_observe(&costs->first_pass, rows, 0.02 * rows);
        cost_curve_observe(&costs->later_pass, rows, 0.01 * rows);
    }
}

/* All ways to give each of three sequences 0 to 3 drafts, by the formula of M-33. */
static double best_rate(const struct draft_costs *costs, float chances[][CHOICE_LIMIT], int32_t best[]) {
    double best_seen = 0;
    for (int32_t code = 0; code < 64; code++) {
        int32_t lengths[CHOICE_SEQUENCES] = {code % 4, code / 4 % 4, code / 16};
        int32_t pass_rows[CHOICE_LIMIT] = {0};
        double tokens = CHOICE_SEQUENCES;
        int32_t rows = CHOICE_SEQUENCES;
        for (int32_t i = 0; i < CHOICE_SEQUENCES; i++) {
            rows += lengths[i];
            for (int32_t j = 0; j < lengths[i]; j++) {
                tokens += chances[i][j];
                pass_rows[j]++;
            }
        }
        double seconds =
            cost_curve_at(&costs->step[0], rows) + cost_curve_at(&costs->first_pass, pass_rows[0]);
        for (int32_t j = 1; j < CHOICE_LIMIT; j++) {
            seconds += cost_curve_at(&costs->later_pass, pass_rows[j]);
        }
        if (tokens / seconds > best_seen) {
            best_seen = tokens / seconds;
            for (int32_t i = 0; i < CHOICE_SEQUENCES; i++) {
                best[i] = lengths[i];
            }
        }
    }
    return best_seen;
}

static void choice_is_the_best_of_all(void **state) {
    (void)state;
    struct draft_acceptance acceptance;
    struct draft_choice *choice;
    assert_int_equal(draft_acceptance_init(&acceptance, CHOICE_SEQUENCES), STATUS_OK);
    assert_int_equal(draft_choice_create(CHOICE_SEQUENCES, CHOICE_LIMIT, &choice), STATUS_OK);
    struct draft_candidate candidates[CHOICE_SEQUENCES];
    float chances[CHOICE_SEQUENCES][CHOICE_LIMIT];
    for (int32_t i = 0; i < CHOICE_SEQUENCES; i++) {
        candidates[i] = (struct draft_candidate){.slot = i, .draft_room = CHOICE_LIMIT};
        draft_acceptance_start(&acceptance, i, 0.5 * i, true);
        observe_rounds(&acceptance, i, 200, 9 - 3 * i, 9);
        draft_acceptance_chances(&acceptance, i, CHOICE_LIMIT, chances[i]);
    }
    struct draft_tick tick = {candidates, CHOICE_SEQUENCES, 0, 0, 100};
    int32_t kinds_seen[CHOICE_SEQUENCES * CHOICE_LIMIT + 1] = {0};
    int32_t kinds = 0;
    for (int i = 0; i < 30; i++) {
        struct draft_costs costs = {0};
        struct draft_values values;
        int32_t drafts[CHOICE_SEQUENCES];
        int32_t best[CHOICE_SEQUENCES];
        set_costs(&costs, 0.01 * i * i);
        draft_choice_evaluate(choice, &costs, &acceptance, &tick, CHOICE_LIMIT, &values);
        draft_choice_assign(choice, values.taken[values.best_length], CHOICE_SEQUENCES, drafts);
        double rate = best_rate(&costs, chances, best);
        assert_near(values.gain[values.best_length] * values.plain_rate, rate, 1e-6 * rate);
        int32_t sum = 0;
        for (int32_t s = 0; s < CHOICE_SEQUENCES; s++) {
            assert_int_equal(drafts[s], best[s]);
            sum += drafts[s];
        }
        kinds += kinds_seen[sum]++ == 0 ? 1 : 0;
    }
    assert_true(kinds >= 4);
    assert_true(kinds_seen[0] > 0);
    draft_choice_destroy(&choice);
    draft_acceptance_deinit(&acceptance);
}

/* Rows of prompts are paid for anyway: where every row costs the same, drafts gain with them what they gain
 * without.
 */
static void prompts_in_a_tick_change_no_gain(void **state) {
    (void)state;
    struct draft_acceptance acceptance;
    struct draft_choice *choice;
    struct draft_costs costs = {0};
    struct draft_values values[2];
    const struct draft_candidate candidate = {.draft_room = CHOICE_LIMIT};
    assert_int_equal(draft_acceptance_init(&acceptance, 1), STATUS_OK);
    assert_int_equal(draft_choice_create(1, CHOICE_LIMIT, &choice), STATUS_OK);
    draft_acceptance_start(&acceptance, 0, 0, true);
    set_costs(&costs, 0.05);
    for (int i = 0; i < 2; i++) {
        struct draft_tick tick = {&candidate, 1, i == 0 ? 0 : 60, 0, 100};
        draft_choice_evaluate(choice, &costs, &acceptance, &tick, CHOICE_LIMIT, &values[i]);
        assert_near(values[i].step_seconds, i == 0 ? 1.05 : 1 + 0.05 * 61, 0.02);
    }
    assert_int_equal(values[0].length_max, CHOICE_LIMIT);
    for (int k = 1; k <= CHOICE_LIMIT; k++) {
        assert_near(values[1].gain[k], values[0].gain[k], 0.03);
    }
    draft_choice_destroy(&choice);
    draft_acceptance_deinit(&acceptance);
}

/* Fills a window with drafting and ends a probe; rates in tokens per second. Returns the ticks it took. */
static int64_t guard_window(struct draft_guard *guard, int32_t load, double draft_rate, double plain_rate,
                            int64_t tick) {
    int64_t drafted = 0;
    while (!draft_guard_is_due(guard, load)) {
        draft_guard_add_drafting(guard, load, draft_rate, 1);
        drafted++;
    }
    draft_guard_begin_probe(guard);
    int32_t ticks = draft_rate > 1.08 * plain_rate ? GUARD_SHORT_PROBE_TICKS : GUARD_PROBE_TICKS;
    for (int32_t i = 1; i <= ticks; i++) {
        assert_int_equal(draft_guard_add_probe(guard, load, plain_rate, 1, tick), i == ticks);
    }
    return drafted;
}

static void guard_trips_after_two_losses_and_backs_off(void **state) {
    (void)state;
    struct draft_guard guard = {0};
    int64_t hold = 0;
    for (int round = 1; round <= 3; round++) {
        int64_t tick = 1000000 * round;
        guard_window(&guard, 4, 0.99, 1, tick);
        assert_near(guard.probe_gain, 0.99, 1e-9);
        assert_false(draft_guard_holds(&guard, 4, tick + 1));
        guard_window(&guard, 4, 0.99, 1, tick);
        assert_int_equal(guard.trips, round);
        int64_t length = 0;
        while (draft_guard_holds(&guard, 4, tick + 1 + length)) {
            length++;
        }
        assert_true(round == 1 ? length >= 256 : length == 2 * hold);
        hold = length;
        assert_false(draft_guard_holds(&guard, 64, tick + 1));
    }
}

static void guard_forgives_one_loss(void **state) {
    (void)state;
    struct draft_guard guard = {0};
    for (int i = 0; i < 10; i++) {
        guard_window(&guard, 1, i % 2 == 0 ? 0.9 : 1.1, 1, i);
    }
    assert_int_equal(guard.trips, 0);
}

/* How long drafting is forbidden by two losses in a row at `tick`. */
static int64_t hold_after_losses(struct draft_guard *guard, int64_t tick) {
    int64_t length = 0;
    guard_window(guard, 4, 0.9, 1, tick);
    guard_window(guard, 4, 0.9, 1, tick);
    while (draft_guard_holds(guard, 4, tick + 1 + length)) {
        length++;
    }
    return length;
}

/* Earlier trips count until drafting has won by 2 %. */
static void guard_forgives_trips_for_a_sure_gain(void **state) {
    (void)state;
    struct draft_guard guard = {0};
    int64_t first = hold_after_losses(&guard, 1000000);
    guard_window(&guard, 4, 1.01, 1, 2000000);
    assert_int_equal(hold_after_losses(&guard, 3000000), 2 * first);
    guard_window(&guard, 4, 1.03, 1, 4000000);
    assert_int_equal(hold_after_losses(&guard, 5000000), first);
}

/* A machine that has become four times as fast since the last probe is compared with what it is now. */
static void guard_forgets_a_slower_past(void **state) {
    (void)state;
    struct draft_guard guard = {0};
    for (int i = 0; i < 2000; i++) {
        draft_guard_add_drafting(&guard, 4, i < 1000 ? 0.5 : 2, 1);
    }
    draft_guard_begin_probe(&guard);
    while (!draft_guard_add_probe(&guard, 4, 1.5, 1, 0)) {
    }
    assert_near(guard.probe_gain, 2 / 1.5, 0.03);
}

/* M-37: 16 of 2048 ticks in the long run or, with a clear gain, fewer; sooner at first and with another load.
 */
static void guard_probes_rarely_when_drafting_wins(void **state) {
    (void)state;
    struct draft_guard guard = {0};
    assert_true(guard_window(&guard, 16, 1.05, 1, 0) <= 128);
    for (int i = 0; i < 6; i++) {
        guard_window(&guard, 16, 1.05, 1, 0);
    }
    assert_int_equal(guard_window(&guard, 16, 1.05, 1, 0), GUARD_PERIOD_TICKS);
    assert_true(guard_window(&guard, 32, 2, 1, 0) <= 128);
    assert_int_equal(guard_window(&guard, 32, 2, 1, 0), GUARD_PERIOD_TICKS);
}

static void load_ignores_small_changes(void **state) {
    (void)state;
    assert_int_equal(draft_guard_load(0, 3), 3);
    assert_int_equal(draft_guard_load(64, 60), 64);
    assert_int_equal(draft_guard_load(64, 52), 64);
    assert_int_equal(draft_guard_load(64, 48), 48);
    assert_int_equal(draft_guard_load(1, 2), 2);
    assert_int_equal(draft_guard_load(48, 64), 64);
}

static const struct draft_values drafts_pay = {
    .gain = {1, 1.2, 1.3}, .taken = {0, 2, 4}, .best_length = 2, .length_max = 2, .plain_seconds = 1};
static const struct draft_values drafts_lose = {
    .gain = {1, 0.985, 0.98}, .taken = {0, 2, 4}, .best_length = 0, .length_max = 2, .plain_seconds = 1};

static void a_length_is_left_at_once_at_another_load(void **state) {
    (void)state;
    struct draft_phases phases;
    struct draft_guard guard = {0};
    struct draft_moment few = {.sequence_count = 2, .load = 2, .draft_limit = 4};
    draft_phases_init(&phases);
    for (few.tick = 0; few.tick < 20; few.tick++) {
        draft_phases_decide(&phases, &guard, &few, &drafts_pay);
    }
    assert_int_equal(phases.length, 2);
    struct draft_phases same = phases;
    assert_int_equal(draft_phases_decide(&same, &guard, &few, &drafts_lose).regime, DRAFT_REGIME_DRAFT);
    /* Not to learn anything either, though it is time. */
    struct draft_moment many = {.tick = 1000, .sequence_count = 64, .load = 64, .draft_limit = 4};
    assert_int_not_equal(draft_phases_decide(&phases, &guard, &many, &drafts_lose).regime,
                         DRAFT_REGIME_DRAFT);
    assert_int_equal(phases.length, 0);
    assert_int_equal(phases.phase, DRAFT_PHASE_STEADY);
}

/* Phases without drafts, at a tick when a trial is due. */
static struct draft_phases phases_at_rest(enum draft_phase phase) {
    struct draft_phases phases;
    draft_phases_init(&phases);
    phases.phase = phase;
    phases.next_trial_tick = 0;
    return phases;
}

static const struct draft_moment at_rest = {.tick = 5, .sequence_count = 4, .load = 4, .draft_limit = 4};

/* What trials have lost is earned before the next one begins. */
static void no_trial_begins_in_debt(void **state) {
    (void)state;
    struct draft_guard guard = {0};
    struct draft_phases phases = phases_at_rest(DRAFT_PHASE_STEADY);
    phases.purse_ticks = -0.001;
    assert_false(draft_phases_decide(&phases, &guard, &at_rest, &drafts_lose).begins_trial);
    draft_phases_account(&phases, 4, 1, false);
    assert_true(draft_phases_decide(&phases, &guard, &at_rest, &drafts_lose).begins_trial);
}

/* A trial that looked well begins drafting only if it still does once steps without drafts were measured
 * anew. */
static void a_trial_is_confirmed(void **state) {
    (void)state;
    for (int pays = 0; pays < 2; pays++) {
        struct draft_guard guard = {0};
        struct draft_phases phases = phases_at_rest(DRAFT_PHASE_CONFIRM);
        const struct draft_values *values = pays ? &drafts_pay : &drafts_lose;
        struct draft_decision decision;
        do {
            decision = draft_phases_decide(&phases, &guard, &at_rest, values);
        } while (phases.phase == DRAFT_PHASE_CONFIRM);
        assert_int_equal(decision.regime, pays ? DRAFT_REGIME_DRAFT : DRAFT_REGIME_COLD);
        assert_int_equal(phases.length, pays ? 2 : 0);
    }
}

/* M-36: the draft layer keeps up for a while after drafting stopped, where that costs little of a step. */
static void staying_warm_may_cost_little(void **state) {
    (void)state;
    for (int is_cheap = 0; is_cheap < 2; is_cheap++) {
        struct draft_guard guard = {0};
        struct draft_phases phases = phases_at_rest(DRAFT_PHASE_STEADY);
        struct draft_values values = drafts_lose;
        values.broad_gain = 0.985;
        values.catch_up_seconds = is_cheap ? 0.019 : 0.021;
        phases.next_trial_tick = 1000;
        phases.off_ticks = 0;
        assert_int_equal(draft_phases_decide(&phases, &guard, &at_rest, &values).regime,
                         is_cheap ? DRAFT_REGIME_WARM : DRAFT_REGIME_COLD);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve_is_linear_between_measurements),
        cmocka_unit_test(curve_tells_outliers_from_changes),
        cmocka_unit_test(curve_rises_with_rows),
        cmocka_unit_test(long_contexts_start_from_short_ones),
        cmocka_unit_test(slow_machine_leaves_the_curve_alone),
        cmocka_unit_test(accidents_change_nothing),
        cmocka_unit_test(passes_are_told_apart),
        cmocka_unit_test(prompts_measure_catching_up),
        cmocka_unit_test(tokens_pay_for_prompts),
        cmocka_unit_test(acceptance_is_learned_by_class_and_position),
        cmocka_unit_test(doubtful_and_confident_sequences_part),
        cmocka_unit_test(failures_of_a_filling_window_count_less),
        cmocka_unit_test(choice_is_the_best_of_all),
        cmocka_unit_test(prompts_in_a_tick_change_no_gain),
        cmocka_unit_test(a_length_is_left_at_once_at_another_load),
        cmocka_unit_test(no_trial_begins_in_debt),
        cmocka_unit_test(a_trial_is_confirmed),
        cmocka_unit_test(staying_warm_may_cost_little),
        cmocka_unit_test(guard_trips_after_two_losses_and_backs_off),
        cmocka_unit_test(guard_forgives_one_loss),
        cmocka_unit_test(guard_forgives_trips_for_a_sure_gain),
        cmocka_unit_test(guard_forgets_a_slower_past),
        cmocka_unit_test(guard_probes_rarely_when_drafting_wins),
        cmocka_unit_test(load_ignores_small_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
