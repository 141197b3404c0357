/* Ties estimates, choice, guard and phases together, and counts. */
#include "engine/draft_controller.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft_controller_acceptance.h"
#include "engine/draft_controller_choice.h"
#include "engine/draft_controller_costs.h"
#include "engine/draft_controller_guard.h"
#include "engine/draft_controller_phases.h"

_Static_assert((int)ACCEPTANCE_POSITIONS == (int)DRAFT_LIMIT_MAX, "one estimate per draft position");

/* A tick's time counts in the guard as at most this many times the expected one. */
static const double GUARD_CLIP = 1.25;
static const int32_t PROMPT_ROWS_SHARE = 4; /* at most so many prompt rows per sequence count in the guard */
static const double CHANGED_SPEED = 2;
enum { CHANGED_TICKS = 32 };
enum { RESUMED_TICKS = 16 }; /* of drafting after a pause that the guard does not count: its window fills */

/* The planned tick, for its observation. */
struct planned_tick {
    struct draft_orders orders;
    enum draft_phase phase;
    int32_t prompt_rows; /* that the draft layer catches up */
    int32_t pass_count;
    int32_t pass_rows[DRAFT_LIMIT_MAX];
};

struct draft_controller {
    struct draft_controller_options options;
    struct draft_schedule_row *schedule;
    struct draft_costs costs;
    struct draft_acceptance acceptance;
    struct draft_choice *choice;
    struct draft_guard guard;
    struct draft_phases phases;
    struct planned_tick planned;                              /* the last one */
    struct planned_tick under_way[DRAFT_TICKS_UNDER_WAY_MAX]; /* a ring: planned and not yet observed */
    int32_t first_under_way;
    int32_t under_way_count;
    struct planned_tick observed; /* what is being observed */
    int64_t tick;
    int64_t drafting_ticks; /* since the draft layer last stood still */
    int32_t load;           /* candidates as the guard counts them */
    int32_t last_other_rows;
    int32_t unusual_ticks; /* in a row, of a machine much slower or faster than the cost curves */
    int32_t last_length;   /* of the tick before; -1: none yet */
    double seconds;
    double draft_seconds;
    struct draft_counters counters;
};

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static enum status check_options(const struct draft_controller_options *options) {
    CHECK(options->draft_limit >= 1 && options->draft_limit <= DRAFT_LIMIT_MAX, STATUS_OUT_OF_RANGE,
          "the number of speculative tokens is %d; use 1 to %d", options->draft_limit, DRAFT_LIMIT_MAX);
    CHECK(options->slot_count >= 1, STATUS_OUT_OF_RANGE, "drafting for %d sequences; use at least 1",
          options->slot_count);
    for (int32_t i = 0; i < options->schedule_row_count; i++) {
        const struct draft_schedule_row *row = &options->schedule[i];
        int32_t before = i == 0 ? 0 : options->schedule[i - 1].sequence_count;
        CHECK(row->sequence_count > before, STATUS_OUT_OF_RANGE,
              "row %d of the draft schedule is for %d sequences after %d; let the numbers rise from 1", i + 1,
              row->sequence_count, before);
        CHECK(row->draft_limit >= 0 && row->draft_limit <= DRAFT_LIMIT_MAX, STATUS_OUT_OF_RANGE,
              "row %d of the draft schedule allows %d drafts; use 0 to %d", i + 1, row->draft_limit,
              DRAFT_LIMIT_MAX);
    }
    return STATUS_OK;
}

enum status draft_controller_create(const struct draft_controller_options *options,
                                    struct draft_controller **out) {
    enum status status = STATUS_OK;
    TRY(check_options(options));
    struct draft_controller *controller = calloc(1, sizeof *controller);
    CHECK_MEMORY(controller);
    controller->options = *options;
    controller->last_length = -1;
    draft_phases_init(&controller->phases);
    if (options->schedule_row_count > 0) {
        size_t bytes = (size_t)options->schedule_row_count * sizeof *controller->schedule;
        controller->schedule = malloc(bytes);
        CHECK_MEMORY_GOTO(controller->schedule);
        memcpy(controller->schedule, options->schedule, bytes);
    }
    controller->options.schedule = controller->schedule;
    TRY_GOTO(draft_acceptance_init(&controller->acceptance, options->slot_count));
    TRY_GOTO(draft_choice_create(options->slot_count, options->draft_limit, &controller->choice));
    *out = controller;
    return STATUS_OK;
fail:
    draft_controller_destroy(&controller);
    return status;
}

void draft_controller_destroy(struct draft_controller **controller) {
    if (*controller != NULL) {
        draft_choice_destroy(&(*controller)->choice);
        draft_acceptance_deinit(&(*controller)->acceptance);
        free((*controller)->schedule);
        free(*controller);
        *controller = NULL;
    }
}

void draft_controller_set_step_cost(struct draft_controller *controller, int32_t rows, double seconds) {
    draft_costs_set_step(&controller->costs, rows, seconds);
}

void draft_controller_set_draft_cost(struct draft_controller *controller, int32_t rows, int32_t drafts,
                                     double seconds) {
    int32_t pass_rows[DRAFT_LIMIT_MAX];
    assert(drafts >= 0 && drafts <= DRAFT_LIMIT_MAX);
    for (int32_t j = 0; j < drafts; j++) {
        pass_rows[j] = rows;
    }
    const struct draft_passes passes = {.sequence_count = rows, .pass_count = drafts, .pass_rows = pass_rows};
    draft_costs_observe_passes(&controller->costs, &passes, seconds);
}

void draft_controller_set_prompt_cost(struct draft_controller *controller, int32_t rows, double seconds) {
    draft_costs_observe_prompts(&controller->costs, rows, seconds);
}

void draft_controller_start_sequence(struct draft_controller *controller, int32_t slot, double temperature) {
    assert(slot >= 0 && slot < controller->options.slot_count);
    bool has_state = controller->planned.orders.has_prompts;
    draft_acceptance_start(&controller->acceptance, slot, temperature, has_state);
}

/* The row for the smallest number of sequences that covers the count; beyond the last row, the last. */
static int32_t limit_now(const struct draft_controller *controller, int32_t sequence_count) {
    int32_t limit = controller->options.draft_limit;
    int32_t rows = controller->options.schedule_row_count;
    for (int32_t i = 0; i < rows; i++) {
        if (sequence_count <= controller->schedule[i].sequence_count || i == rows - 1) {
            return least(limit, controller->schedule[i].draft_limit);
        }
    }
    return limit;
}

static struct draft_orders orders_for_all(enum draft_regime regime, int32_t candidate_count) {
    bool is_cold = regime == DRAFT_REGIME_COLD;
    return (struct draft_orders){regime, is_cold ? 0 : candidate_count, !is_cold};
}

static struct draft_orders orders_for_learners(enum draft_regime regime, int32_t candidate_count) {
    int32_t count = least(candidate_count, DRAFT_LEARNING_SEQUENCES);
    return (struct draft_orders){regime, count, count == candidate_count};
}

static struct draft_orders plan_fixed(const struct draft_tick *tick, int32_t limit, int32_t *drafts) {
    for (int32_t i = 0; i < tick->candidate_count; i++) {
        drafts[i] = least(tick->candidates[i].draft_room, limit);
    }
    return orders_for_all(DRAFT_REGIME_DRAFT, tick->candidate_count);
}

static struct draft_orders plan_adaptive(struct draft_controller *controller, const struct draft_tick *tick,
                                         int32_t limit, int32_t *drafts) {
    struct draft_values values;
    /* The drafts are verified in the next tick: it is taken to have prompts if two in a row do. */
    struct draft_tick next = *tick;
    next.other_rows = least(tick->other_rows, controller->last_other_rows);
    controller->last_other_rows = tick->other_rows;
    draft_choice_evaluate(controller->choice, &controller->costs, &controller->acceptance, &next, limit,
                          &values);
    controller->load = draft_guard_load(controller->load, tick->candidate_count);
    const struct draft_moment moment = {
        .tick = controller->tick,
        .sequence_count = tick->candidate_count,
        .load = controller->load,
        .other_rows = tick->other_rows,
        .draft_limit = limit,
    };
    struct draft_decision decision =
        draft_phases_decide(&controller->phases, &controller->guard, &moment, &values);
    draft_choice_assign(controller->choice, decision.taken, tick->candidate_count, drafts);
    for (int32_t i = 0; i < tick->candidate_count && i < DRAFT_LEARNING_SEQUENCES; i++) {
        int32_t learning = least(tick->candidates[i].draft_room, decision.least_length);
        drafts[i] = drafts[i] > learning ? drafts[i] : learning;
    }
    struct draft_orders orders = decision.is_for_learners
                                     ? orders_for_learners(decision.regime, tick->candidate_count)
                                     : orders_for_all(decision.regime, tick->candidate_count);
    for (int32_t i = orders.participant_count; i < tick->candidate_count; i++) {
        drafts[i] = 0;
    }
    if (decision.begins_trial) {
        draft_acceptance_doubt(&controller->acceptance);
    }
    return orders;
}

static struct planned_tick new_plan(struct draft_orders orders, enum draft_phase phase,
                                    const struct draft_tick *tick) {
    return (struct planned_tick){
        .orders = orders, .phase = phase, .prompt_rows = orders.has_prompts ? tick->prompt_draft_rows : 0};
}

static void remember_plan(struct draft_controller *controller, struct draft_orders orders,
                          enum draft_phase phase, const struct draft_tick *tick, const int32_t *drafts) {
    struct planned_tick *planned = &controller->planned;
    *planned = new_plan(orders, phase, tick);
    controller->drafting_ticks = orders.has_prompts ? controller->drafting_ticks + 1 : 0;
    for (int32_t i = 0; i < tick->candidate_count; i++) {
        for (int32_t j = 0; j < drafts[i]; j++) {
            planned->pass_rows[j]++;
        }
        planned->pass_count = drafts[i] > planned->pass_count ? drafts[i] : planned->pass_count;
        controller->counters.proposed += drafts[i];
    }
}

static void count_plan(struct draft_controller *controller, enum draft_regime regime) {
    struct draft_counters *counters = &controller->counters;
    int32_t length = controller->planned.pass_count;
    counters->length = length;
    counters->regime = regime;
    counters->ticks_by_length[length]++;
    counters->warm_ticks += regime == DRAFT_REGIME_WARM ? 1 : 0;
    counters->cold_ticks += regime == DRAFT_REGIME_COLD ? 1 : 0;
    counters->switches += controller->last_length >= 0 && length != controller->last_length ? 1 : 0;
    controller->last_length = length;
}

static struct draft_orders plan_tick(struct draft_controller *controller, const struct draft_tick *tick,
                                     int32_t *drafts) {
    bool is_adaptive = controller->options.is_adaptive;
    if (tick->candidate_count == 0) {
        bool is_on = !is_adaptive || controller->phases.length > 0;
        struct draft_orders orders = orders_for_all(is_on ? DRAFT_REGIME_DRAFT : DRAFT_REGIME_COLD, 0);
        controller->planned = new_plan(orders, controller->phases.phase, tick);
        return controller->planned.orders;
    }
    int32_t limit = limit_now(controller, tick->candidate_count);
    struct draft_orders orders =
        is_adaptive ? plan_adaptive(controller, tick, limit, drafts) : plan_fixed(tick, limit, drafts);
    remember_plan(controller, orders, controller->phases.phase, tick, drafts);
    count_plan(controller, orders.regime);
    controller->tick++;
    return orders;
}

struct draft_orders draft_controller_plan(struct draft_controller *controller, const struct draft_tick *tick,
                                          int32_t *drafts) {
    assert(tick->candidate_count <= controller->options.slot_count);
    assert(controller->under_way_count < DRAFT_TICKS_UNDER_WAY_MAX);
    struct draft_orders orders = plan_tick(controller, tick, drafts);
    int32_t place = controller->first_under_way + controller->under_way_count;
    controller->under_way[place % DRAFT_TICKS_UNDER_WAY_MAX] = controller->planned;
    controller->under_way_count++;
    return orders;
}

void draft_controller_forget_ticks(struct draft_controller *controller) {
    controller->under_way_count = 0;
}

/* What the sequences had accepted: counters and estimates. Returns the tick's tokens. */
static int64_t observe_sequences(struct draft_controller *controller, const struct draft_tick *tick,
                                 const struct draft_outcome *outcome) {
    struct draft_counters *counters = &controller->counters;
    int64_t tokens = 0;
    int32_t verified_most = 0;
    for (int32_t i = 0; i < tick->candidate_count; i++) {
        int32_t slot = tick->candidates[i].slot;
        assert(outcome->accepted[i] >= 0 && outcome->accepted[i] <= outcome->verified[i]);
        if (controller->observed.orders.regime == DRAFT_REGIME_DRAFT || outcome->verified[i] > 0) {
            draft_acceptance_observe(&controller->acceptance, slot, outcome->verified[i],
                                     outcome->accepted[i]);
        }
        verified_most = outcome->verified[i] > verified_most ? outcome->verified[i] : verified_most;
        bool takes_part = i < controller->observed.orders.participant_count;
        draft_acceptance_note_state(&controller->acceptance, slot, takes_part ? 1 + outcome->accepted[i] : 0);
        for (int32_t j = 0; j < outcome->verified[i]; j++) {
            counters->verified[j]++;
            counters->accepted[j] += j < outcome->accepted[i] ? 1 : 0;
        }
        tokens += 1 + outcome->accepted[i];
    }
    if (verified_most > 0) {
        draft_acceptance_end_tick(&controller->acceptance, verified_most);
    }
    counters->rounds += tick->candidate_count;
    counters->emitted += tokens;
    return tokens;
}

/* What the tick took: learned, and returned in the measure that the guard compares by. */
static double observe_costs(struct draft_controller *controller, const struct draft_tick *tick, int32_t rows,
                            const struct draft_outcome *outcome) {
    const struct draft_passes passes = {
        .sequence_count = controller->observed.orders.participant_count,
        .prompt_rows = controller->observed.prompt_rows,
        .pass_count = controller->observed.pass_count,
        .pass_rows = controller->observed.pass_rows,
    };
    double slowness = draft_costs_slowness(&controller->costs);
    double seconds = outcome->step_seconds + outcome->draft_seconds;
    double expected = cost_curve_at(draft_costs_step(&controller->costs, tick->context_tokens), rows);
    if (controller->observed.orders.regime != DRAFT_REGIME_COLD) {
        expected += draft_costs_passes(&controller->costs, &passes);
        draft_costs_observe_passes(&controller->costs, &passes,
                                   draft_costs_at_curve_speed(&controller->costs, outcome->draft_seconds));
    }
    draft_costs_observe_step(&controller->costs, rows, tick->context_tokens, outcome->step_seconds,
                             controller->observed.phase != DRAFT_PHASE_STEADY);
    expected *= slowness;
    return expected > 0 && seconds > GUARD_CLIP * expected ? GUARD_CLIP * expected : seconds;
}

/* Ticks in which prompts take most of the time say little about drafts. */
static bool is_mostly_prompts(const struct draft_tick *tick) {
    return tick->other_rows > PROMPT_ROWS_SHARE * tick->candidate_count;
}

/*
 * What the tick's prompts add to a step without drafts, and to the draft layer's work: that is paid by all
 * tokens alike.
 */
static double prompt_seconds(const struct draft_controller *controller, const struct draft_tick *tick) {
    const struct draft_costs *costs = &controller->costs;
    const struct cost_curve *step = draft_costs_step(costs, tick->context_tokens);
    double of_step = cost_curve_at(step, tick->candidate_count + tick->other_rows) -
                     cost_curve_at(step, tick->candidate_count);
    double of_drafts = costs->prompt_row_seconds * controller->observed.prompt_rows;
    return draft_costs_slowness(costs) * (of_step + of_drafts);
}

/* A machine, or a work, that is twice as fast or slow for long may well be another one in other ways. */
static void note_changed_speed(struct draft_controller *controller) {
    double slowness = draft_costs_slowness(&controller->costs);
    bool is_usual = slowness < CHANGED_SPEED && slowness > 1 / CHANGED_SPEED;
    controller->unusual_ticks = is_usual ? 0 : controller->unusual_ticks + 1;
    if (controller->unusual_ticks >= CHANGED_TICKS) {
        controller->unusual_ticks = 0;
        draft_costs_forget_steps(&controller->costs);
        draft_phases_forget(&controller->phases, controller->tick);
    }
}

static void feed_guard(struct draft_controller *controller, const struct draft_tick *tick, bool has_verified,
                       double tokens, double seconds) {
    const struct planned_tick *planned = &controller->observed;
    if (is_mostly_prompts(tick)) {
        return;
    }
    double paid = seconds - prompt_seconds(controller, tick);
    if (!(paid > 0)) {
        return;
    }
    if (planned->phase == DRAFT_PHASE_PROBE && !has_verified) {
        if (draft_guard_add_probe(&controller->guard, controller->load, tokens, paid, controller->tick)) {
            draft_phases_end_probe(&controller->phases);
        }
    } else if (planned->phase == DRAFT_PHASE_STEADY && planned->orders.regime == DRAFT_REGIME_DRAFT &&
               controller->drafting_ticks > RESUMED_TICKS) {
        paid += tokens * draft_costs_prompt_share(&controller->costs, tick->candidate_count) *
                draft_costs_slowness(&controller->costs);
        draft_guard_add_drafting(&controller->guard, controller->load, tokens, paid);
    }
}

void draft_controller_observe(struct draft_controller *controller, const struct draft_tick *tick,
                              const struct draft_outcome *outcome) {
    controller->observed = controller->under_way[controller->first_under_way];
    controller->first_under_way = (controller->first_under_way + 1) % DRAFT_TICKS_UNDER_WAY_MAX;
    controller->under_way_count--;
    controller->seconds += outcome->step_seconds + outcome->draft_seconds;
    controller->draft_seconds += outcome->draft_seconds;
    int64_t tokens = observe_sequences(controller, tick, outcome);
    if (!controller->options.is_adaptive) {
        return;
    }
    int32_t verified = 0;
    for (int32_t i = 0; i < tick->candidate_count; i++) {
        verified += outcome->verified[i];
    }
    int32_t rows = tick->candidate_count + verified + tick->other_rows;
    double seconds = observe_costs(controller, tick, rows, outcome);
    draft_costs_note_prompts(&controller->costs, tick->prompt_draft_rows, tokens);
    note_changed_speed(controller);
    if (tick->candidate_count > 0) {
        feed_guard(controller, tick, verified > 0, (double)tokens, seconds);
        draft_phases_account(&controller->phases, (double)tokens,
                             draft_costs_at_curve_speed(&controller->costs, seconds), tick->other_rows > 0);
    }
}

struct draft_counters draft_controller_counters(const struct draft_controller *controller) {
    struct draft_counters counters = controller->counters;
    counters.guard_trips = controller->guard.trips;
    counters.probe_gain = controller->guard.probe_gain;
    counters.draft_fraction = controller->seconds > 0 ? controller->draft_seconds / controller->seconds : 0;
    return counters;
}
