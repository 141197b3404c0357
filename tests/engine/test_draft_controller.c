/* What the controller is told and answers: limits, room, schedule, its regimes, hysteresis and options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/draft_controller.h"
#include "engine/draft_controller_phases.h"

enum { SLOTS = 12 };

static struct draft_controller *create(struct draft_controller_options options) {
    struct draft_controller *controller;
    options.slot_count = SLOTS;
    assert_int_equal(draft_controller_create(&options, &controller), STATUS_OK);
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        draft_controller_start_sequence(controller, slot, 0);
    }
    return controller;
}

/* One tick of `count` sequences with equal room and nothing pending. */
static enum draft_regime plan(struct draft_controller *controller, int32_t count, int32_t room,
                              int32_t *drafts) {
    struct draft_candidate candidates[SLOTS];
    int32_t none[SLOTS] = {0};
    for (int32_t i = 0; i < count; i++) {
        candidates[i] = (struct draft_candidate){.slot = i, .draft_room = room};
    }
    struct draft_tick tick = {.candidates = candidates, .candidate_count = count, .context_tokens = 100};
    struct draft_outcome outcome = {none, none, 0.010, 0.001};
    enum draft_regime regime = draft_controller_plan(controller, &tick, drafts).regime;
    outcome.draft_seconds = regime == DRAFT_REGIME_COLD ? 0 : outcome.draft_seconds;
    draft_controller_observe(controller, &tick, &outcome);
    return regime;
}

/* Steps that cost the same for any rows: every draft pays. */
static void set_flat_costs(struct draft_controller *controller) {
    draft_controller_set_step_cost(controller, 1, 0.010);
    draft_controller_set_step_cost(controller, 256, 0.010);
    draft_controller_set_draft_cost(controller, 1, 1, 0.00001);
    draft_controller_set_draft_cost(controller, 1, 2, 0.00002);
}

static void fixed_length_is_limit_or_room(void **state) {
    (void)state;
    struct draft_controller *controller = create((struct draft_controller_options){.draft_limit = 16});
    int32_t drafts[SLOTS];
    assert_int_equal(plan(controller, 2, 20, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(drafts[0], 16);
    assert_int_equal(plan(controller, 2, 3, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(drafts[1], 3);
    assert_int_equal(plan(controller, 2, 0, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(drafts[1], 0);
    assert_int_equal(plan(controller, 0, 0, drafts), DRAFT_REGIME_DRAFT);
    struct draft_counters counters = draft_controller_counters(controller);
    assert_int_equal(counters.proposed, 2 * 16 + 2 * 3);
    assert_int_equal(counters.ticks_by_length[16], 1);
    assert_int_equal(counters.ticks_by_length[0], 1);
    draft_controller_destroy(&controller);
    assert_null(controller);
}

/* M-40: a table by how many run, which caps what the controller may choose. */
static void schedule_caps_by_running_sequences(void **state) {
    (void)state;
    static const struct draft_schedule_row rows[] = {{1, 9}, {3, 2}, {6, 0}};
    static const int32_t expected[] = {4, 2, 2, 0, 0, 0, 0}; /* of 1 to 7 sequences, limit 4 */
    for (int is_adaptive = 0; is_adaptive < 2; is_adaptive++) {
        struct draft_controller *controller = create((struct draft_controller_options){
            .draft_limit = 4, .is_adaptive = is_adaptive != 0, .schedule = rows, .schedule_row_count = 3});
        set_flat_costs(controller);
        for (int32_t count = 1; count <= 7; count++) {
            int32_t drafts[SLOTS];
            enum draft_regime regime = plan(controller, count, 10, drafts);
            for (int32_t i = 0; i < count; i++) {
                assert_int_equal(drafts[i], expected[count - 1]);
            }
            bool is_cold = is_adaptive && expected[count - 1] == 0;
            assert_int_equal(regime, is_cold ? DRAFT_REGIME_COLD : DRAFT_REGIME_DRAFT);
        }
        draft_controller_destroy(&controller);
    }
}

/* Nothing is known of costs: one plain tick to learn from, then a try. */
static void first_tick_measures_without_drafts(void **state) {
    (void)state;
    struct draft_controller *controller =
        create((struct draft_controller_options){.draft_limit = 2, .is_adaptive = true});
    int32_t drafts[SLOTS];
    assert_int_equal(plan(controller, 1, 5, drafts), DRAFT_REGIME_COLD);
    assert_int_equal(drafts[0], 0);
    assert_int_equal(plan(controller, 1, 5, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(drafts[0], 2);
    draft_controller_destroy(&controller);
}

/* Without room nothing is drafted; the layer stays warm for a while, then rests. */
static void no_room_means_warm_then_cold(void **state) {
    (void)state;
    struct draft_controller *controller =
        create((struct draft_controller_options){.draft_limit = 3, .is_adaptive = true});
    set_flat_costs(controller);
    int32_t drafts[SLOTS];
    assert_int_equal(plan(controller, 2, 5, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(plan(controller, 2, 0, drafts), DRAFT_REGIME_WARM);
    assert_int_equal(drafts[0] + drafts[1], 0);
    assert_int_equal(plan(controller, 0, 0, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(plan(controller, 2, 1, drafts), DRAFT_REGIME_DRAFT);
    assert_int_equal(drafts[0], 1);
    for (int i = 0; i < 200; i++) {
        plan(controller, 2, 0, drafts);
    }
    assert_int_equal(plan(controller, 2, 0, drafts), DRAFT_REGIME_COLD);
    assert_int_equal(plan(controller, 0, 0, drafts), DRAFT_REGIME_COLD);
    assert_int_equal(plan(controller, 2, 5, drafts), DRAFT_REGIME_DRAFT);
    draft_controller_destroy(&controller);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    static const struct draft_schedule_row falling[] = {{4, 2}, {2, 1}};
    static const struct draft_schedule_row too_many[] = {{4, 17}};
    static const struct {
        struct draft_controller_options options;
        const char *message;
    } cases[] = {
        {{.draft_limit = 0, .slot_count = 1}, "the number of speculative tokens is 0; use 1 to 16"},
        {{.draft_limit = 17, .slot_count = 1}, "the number of speculative tokens is 17; use 1 to 16"},
        {{.draft_limit = 1, .slot_count = 0}, "drafting for 0 sequences; use at least 1"},
        {{.draft_limit = 1, .slot_count = 1, .schedule = falling, .schedule_row_count = 2},
         "row 2 of the draft schedule is for 2 sequences after 4; let the numbers rise from 1"},
        {{.draft_limit = 1, .slot_count = 1, .schedule = too_many, .schedule_row_count = 1},
         "row 1 of the draft schedule allows 17 drafts; use 0 to 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct draft_controller *controller = NULL;
        assert_int_equal(draft_controller_create(&cases[i].options, &controller), STATUS_OUT_OF_RANGE);
        assert_string_equal(error_last()->message, cases[i].message);
        assert_null(controller);
    }
}

static struct draft_decision decide(struct draft_phases *phases, struct draft_guard *guard, int64_t tick,
                                    double gain_of_2, double gain_of_3) {
    struct draft_values values = {.length_max = 3,
                                  .best_length = gain_of_2 > gain_of_3 ? 2 : 3,
                                  .gain = {1, 1.1, gain_of_2, gain_of_3},
                                  .taken = {0, 1, 2, 3},
                                  .broad_gain = 1.2,
                                  .plain_seconds = 1,
                                  .plain_rate = 1,
                                  .step_seconds = 1};
    struct draft_moment moment = {.tick = tick, .sequence_count = 1, .load = 1, .draft_limit = 3};
    return draft_phases_decide(phases, guard, &moment, &values);
}

/* Two drafts at a gain that may be below 1. */
static struct draft_decision decide_best_of(struct draft_phases *phases, struct draft_guard *guard,
                                            int64_t tick, double gain_of_2) {
    struct draft_values values = {.length_max = 2,
                                  .best_length = gain_of_2 > 1 ? 2 : 0,
                                  .gain = {1, 0.9, gain_of_2},
                                  .taken = {0, 1, 2},
                                  .broad_gain = gain_of_2,
                                  .plain_seconds = 1,
                                  .plain_rate = 1,
                                  .step_seconds = 1};
    struct draft_moment moment = {.tick = tick, .sequence_count = 1, .load = 1, .draft_limit = 2};
    return draft_phases_decide(phases, guard, &moment, &values);
}

/* M-38: at once for more than 3 %, else after 8 ticks in a row. */
static void length_changes_with_hysteresis(void **state) {
    (void)state;
    struct draft_phases phases;
    struct draft_guard guard = {0};
    draft_phases_init(&phases);
    assert_int_equal(decide(&phases, &guard, 0, 1.2, 1.19).taken, 0);
    assert_int_equal(decide(&phases, &guard, 0, 1.2, 1.19).taken, 2);
    for (int64_t tick = 1; tick <= 7; tick++) {
        assert_int_equal(decide(&phases, &guard, tick, 1.2, 1.21).taken, 2);
    }
    assert_int_equal(decide(&phases, &guard, 8, 1.2, 1.19).taken, 2);
    for (int64_t tick = 9; tick <= 15; tick++) {
        assert_int_equal(decide(&phases, &guard, tick, 1.2, 1.21).taken, 2);
    }
    assert_int_equal(decide(&phases, &guard, 16, 1.2, 1.21).taken, 3);
    assert_int_equal(decide(&phases, &guard, 17, 1.2 * 1.04, 1.2).taken, 2);
}

/* Drafting starts once it would have saved 0.3 ticks: a moment's gain is not worth an empty window. */
static void drafting_starts_for_a_lasting_gain(void **state) {
    (void)state;
    struct draft_phases phases;
    struct draft_guard guard = {0};
    draft_phases_init(&phases);
    for (int64_t tick = 0; tick < 20; tick++) {
        double gain = tick % 3 == 2 ? 0.99 : 1.14;
        assert_int_equal(decide_best_of(&phases, &guard, tick, gain).taken, 0);
    }
    assert_int_equal(decide_best_of(&phases, &guard, 20, 0.99).taken, 0);
    assert_int_equal(decide_best_of(&phases, &guard, 21, 1.14).taken, 0);
    assert_int_equal(decide_best_of(&phases, &guard, 22, 1.14).taken, 0);
    assert_int_equal(decide_best_of(&phases, &guard, 23, 1.14).taken, 2);
}

/* What a change of the machine makes doubtful is looked at again before its time. */
static void changed_costs_bring_a_probe(void **state) {
    (void)state;
    struct draft_phases phases;
    struct draft_guard guard = {0};
    draft_phases_init(&phases);
    assert_int_equal(decide(&phases, &guard, 0, 1.5, 1.4).regime, DRAFT_REGIME_DRAFT);
    draft_phases_forget(&phases, 2);
    assert_int_equal(decide(&phases, &guard, 2, 1.5, 1.4).regime, DRAFT_REGIME_COLD);
    assert_int_equal(phases.phase, DRAFT_PHASE_PROBE);
}

/* Where drafting does not pay, whoever tries it are the first few sequences: no others, and no prompts. */
static void few_sequences_try_drafts(void **state) {
    (void)state;
    struct draft_controller *controller =
        create((struct draft_controller_options){.draft_limit = 2, .is_adaptive = true});
    struct draft_candidate candidates[SLOTS];
    int32_t none[SLOTS] = {0};
    int32_t drafts[SLOTS];
    int32_t tries = 0;
    for (int32_t i = 0; i < SLOTS; i++) {
        candidates[i] = (struct draft_candidate){.slot = i, .draft_room = 2};
    }
    for (int32_t rows = 1; rows <= 4 * SLOTS; rows *= 2) {
        draft_controller_set_step_cost(controller, rows, 0.001 * rows);
    }
    const struct draft_tick tick = {
        .candidates = candidates, .candidate_count = SLOTS, .context_tokens = 100};
    for (int i = 0; i < 400; i++) {
        struct draft_orders orders = draft_controller_plan(controller, &tick, drafts);
        bool is_cold = orders.regime == DRAFT_REGIME_COLD;
        assert_int_equal(orders.participant_count, is_cold ? 0 : DRAFT_LEARNING_SEQUENCES);
        assert_false(orders.has_prompts);
        for (int32_t k = 0; k < SLOTS; k++) {
            bool may_draft = orders.regime == DRAFT_REGIME_DRAFT && k < orders.participant_count;
            assert_in_range(drafts[k], 0, may_draft ? 2 : 0);
            tries += drafts[k];
        }
        struct draft_outcome outcome = {none, none, 0.001 * SLOTS, is_cold ? 0 : 0.001};
        draft_controller_observe(controller, &tick, &outcome);
    }
    assert_true(tries >= DRAFT_LEARNING_SEQUENCES);
    draft_controller_destroy(&controller);
}

/* Whatever the estimates say: what the guard forbids stays off, and comes back afterwards. */
static void guard_overrules_estimates(void **state) {
    (void)state;
    struct draft_phases phases;
    struct draft_guard guard = {.buckets = {{.held_until = 10}}};
    draft_phases_init(&phases);
    for (int64_t tick = 0; tick < 10; tick++) {
        struct draft_decision decision = decide(&phases, &guard, tick, 1.5, 1.4);
        assert_int_equal(decision.regime, DRAFT_REGIME_COLD);
        assert_int_equal(decision.taken, 0);
    }
    assert_int_equal(decide(&phases, &guard, 10, 1.5, 1.4).regime, DRAFT_REGIME_DRAFT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_length_is_limit_or_room),
        cmocka_unit_test(schedule_caps_by_running_sequences),
        cmocka_unit_test(first_tick_measures_without_drafts),
        cmocka_unit_test(no_room_means_warm_then_cold),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(length_changes_with_hysteresis),
        cmocka_unit_test(drafting_starts_for_a_lasting_gain),
        cmocka_unit_test(changed_costs_bring_a_probe),
        cmocka_unit_test(few_sequences_try_drafts),
        cmocka_unit_test(guard_overrules_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
