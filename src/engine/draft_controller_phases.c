/* One function per phase; each names the next phase and what this tick does. */
#include "engine/draft_controller_phases.h"

enum {
    LENGTH_HYSTERESIS_TICKS = 8,
    SWITCH_HYSTERESIS_TICKS = 32, /* between drafting and not: the window must fill again */
    PROBE_PATIENCE_TICKS = 64,    /* for a probe's ticks between prompts */
    REFILL_TICKS = 24,
    TRIAL_LEAST_TICKS = 8,
    TRIAL_ROUNDS = 24,      /* of few sequences: more ticks */
    TRIAL_NEAR_TICKS = 128, /* while it is nearly worth it */
    CONFIRM_TICKS = 6,
    TRIAL_FIRST_WAIT = 128,
    TRIAL_LONGEST_WAIT = 4096,
    TRIAL_FORGIVEN_TICKS = 512, /* of drafting, after which trials are frequent again */
    EXCURSION_TICKS = 16,
    EXCURSION_FIRST_WAIT = 64,
    EXCURSION_LONGEST_WAIT = 8192,
    WARM_TICKS = 64, /* after drafting stopped, or while no sequence has room */
};

static const double HYSTERESIS_GAIN = 1.03;
static const double ELSEWHERE_GAIN = 1.01;    /* ends patience with a length of another load */
static const double START_MISSED_TICKS = 0.3; /* about what the first drafts of an empty window cost */
static const double HOPELESS_GAIN = 0.9;      /* ends a trial early */
static const double NEAR_GAIN = 0.97;         /* drafting may pay soon */
static const double WARM_SHARE = 0.02;        /* of a step: what staying warm may cost */
static const double PURSE_SHARE = 0.003;
static const double PURSE_TICKS = 64; /* that it can hold */

void draft_phases_init(struct draft_phases *phases) {
    *phases = (struct draft_phases){
        .trial_wait_ticks = TRIAL_FIRST_WAIT,
        .next_trial_tick = TRIAL_FIRST_WAIT,
        .excursion_wait_ticks = EXCURSION_FIRST_WAIT,
        .next_excursion_tick = EXCURSION_FIRST_WAIT,
        .off_ticks = WARM_TICKS,
    };
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static void enter(struct draft_phases *phases, enum draft_phase phase) {
    phases->phase = phase;
    phases->phase_ticks = 0;
}

static void set_length(struct draft_phases *phases, int32_t length, const struct draft_moment *moment) {
    if (length == 0 && phases->length > 0) {
        phases->off_ticks = 0;
        phases->next_trial_tick = moment->tick + phases->trial_wait_ticks;
    }
    if (length > 0 && phases->length == 0) {
        phases->on_ticks = 0;
        phases->next_excursion_tick = moment->tick + phases->excursion_wait_ticks;
    }
    phases->length = length;
    phases->right_load = moment->load;
    phases->other_best_ticks = 0;
    phases->missed_ticks = 0;
    phases->no_room_ticks = 0;
}

static int64_t longer_wait(int64_t wait, int64_t longest) {
    return 2 * wait < longest ? 2 * wait : longest;
}

/* The best number of drafts above none; 0 if there is no room for any. */
static int32_t best_drafting(const struct draft_values *values) {
    int32_t best = values->length_max > 0 ? 1 : 0;
    for (int32_t k = 2; k <= values->length_max; k++) {
        best = values->gain[k] > values->gain[best] ? k : best;
    }
    return best;
}

static struct draft_decision draft(const struct draft_values *values, int32_t length) {
    return (struct draft_decision){.regime = DRAFT_REGIME_DRAFT, .taken = values->taken[length]};
}

/* Whether the steady length was right, but for another number of sequences. */
static bool is_elsewhere(const struct draft_phases *phases, const struct draft_moment *moment) {
    return phases->length > 0 && moment->load != phases->right_load;
}

/*
 * Changes the length if another is clearly better, or a little better for long enough. At a new load there is
 * nothing to wait for: it is not the estimates that changed.
 */
static void follow_estimates(struct draft_phases *phases, const struct draft_values *values,
                             const struct draft_moment *moment) {
    int32_t best = values->best_length;
    if (best == phases->length) {
        phases->other_best_ticks = 0;
        phases->missed_ticks = 0;
        phases->right_load = moment->load;
        return;
    }
    if (phases->length == 0) {
        phases->missed_ticks += values->gain[best] - 1;
        if (phases->missed_ticks >= START_MISSED_TICKS) {
            set_length(phases, best, moment);
        }
        return;
    }
    int32_t patience = best == 0 ? SWITCH_HYSTERESIS_TICKS : LENGTH_HYSTERESIS_TICKS;
    double needed = is_elsewhere(phases, moment) ? ELSEWHERE_GAIN : HYSTERESIS_GAIN;
    phases->other_best_ticks++;
    if (values->gain[best] > needed * values->gain[phases->length] || phases->other_best_ticks >= patience) {
        set_length(phases, best, moment);
    }
}

/* Not enough room for the steady length: what fits, for this tick. Nowhere for long: drafting is off. */
static struct draft_decision draft_in_small_room(struct draft_phases *phases,
                                                 const struct draft_values *values,
                                                 const struct draft_moment *moment) {
    if (values->best_length > 0) {
        phases->no_room_ticks = 0;
        return draft(values, values->best_length);
    }
    if (++phases->no_room_ticks >= WARM_TICKS) {
        set_length(phases, 0, moment);
    }
    return (struct draft_decision){.regime = DRAFT_REGIME_WARM};
}

static struct draft_decision stay_off(struct draft_phases *phases, const struct draft_values *values) {
    bool is_near = values->broad_gain > NEAR_GAIN;
    bool is_cheap = values->catch_up_seconds <= WARM_SHARE * values->plain_seconds;
    bool is_recent = phases->off_ticks < WARM_TICKS;
    phases->off_ticks += is_recent ? 1 : 0;
    return (struct draft_decision){
        .regime = is_recent && is_near && is_cheap ? DRAFT_REGIME_WARM : DRAFT_REGIME_COLD,
    };
}

static bool begin_excursion(struct draft_phases *phases, const struct draft_moment *moment) {
    bool may_shorten = phases->length > 1;
    bool may_lengthen = phases->length < moment->draft_limit;
    if (moment->tick < phases->next_excursion_tick || phases->purse_ticks < 0 ||
        (!may_shorten && !may_lengthen)) {
        return false;
    }
    phases->excursion_is_shorter = may_shorten && (!phases->excursion_is_shorter || !may_lengthen);
    int32_t longer = least(phases->length + 2, moment->draft_limit);
    phases->excursion_length = phases->excursion_is_shorter ? phases->length / 2 : longer;
    enter(phases, DRAFT_PHASE_EXCURSION);
    return true;
}

static void end_excursion(struct draft_phases *phases, const struct draft_moment *moment,
                          const struct draft_values *values) {
    bool has_found = phases->excursion_is_shorter ? values->best_length < phases->length
                                                  : values->best_length > phases->length;
    phases->excursion_wait_ticks =
        has_found ? EXCURSION_FIRST_WAIT : longer_wait(phases->excursion_wait_ticks, EXCURSION_LONGEST_WAIT);
    phases->next_excursion_tick = moment->tick + phases->excursion_wait_ticks;
    enter(phases, DRAFT_PHASE_STEADY);
}

static struct draft_decision decide_excursion(struct draft_phases *phases,
                                              const struct draft_values *values) {
    phases->phase_ticks++;
    if (phases->excursion_is_shorter) {
        return draft(values, least(phases->excursion_length, values->length_max));
    }
    struct draft_decision decision = draft(values, least(phases->length, values->length_max));
    decision.least_length = phases->excursion_length;
    return decision;
}

/* A trial that came near is cheap: the next one comes as soon. */
static struct draft_decision end_trial(struct draft_phases *phases, int64_t tick, bool was_near) {
    if (!was_near) {
        phases->trial_wait_ticks = longer_wait(phases->trial_wait_ticks, TRIAL_LONGEST_WAIT);
    }
    phases->next_trial_tick = tick + phases->trial_wait_ticks;
    enter(phases, DRAFT_PHASE_STEADY);
    return (struct draft_decision){.regime = DRAFT_REGIME_COLD};
}

static struct draft_decision keep_learners_warm(void) {
    return (struct draft_decision){.regime = DRAFT_REGIME_WARM, .is_for_learners = true};
}

/* Drafting goes on if it pays by what the trial has shown so far. */
static struct draft_decision decide_trial(struct draft_phases *phases, const struct draft_moment *moment,
                                          const struct draft_values *values) {
    int32_t best = best_drafting(values);
    int32_t ticks = phases->phase_ticks++;
    struct draft_decision decision = draft(values, best);
    decision.least_length = 1;
    decision.is_for_learners = true;
    if (ticks < TRIAL_LEAST_TICKS) {
        return decision;
    }
    if (values->best_length > 0) {
        enter(phases, DRAFT_PHASE_CONFIRM);
        return keep_learners_warm();
    }
    bool is_near = values->broad_gain > NEAR_GAIN;
    bool is_hopeless = values->broad_gain < HOPELESS_GAIN;
    bool is_known = ticks * moment->sequence_count >= TRIAL_ROUNDS;
    if (is_hopeless || (is_known && !is_near) || ticks >= TRIAL_NEAR_TICKS) {
        return end_trial(phases, moment->tick, is_near);
    }
    return decision;
}

/*
 * Had the machine become faster when the trial began, drafts would look good for no reason: then the steps
 * without them are faster as well by now.
 */
static struct draft_decision decide_confirm(struct draft_phases *phases, const struct draft_moment *moment,
                                            const struct draft_values *values) {
    if (++phases->phase_ticks < CONFIRM_TICKS) {
        return keep_learners_warm();
    }
    if (values->best_length == 0) {
        return end_trial(phases, moment->tick, values->broad_gain > NEAR_GAIN);
    }
    enter(phases, DRAFT_PHASE_STEADY);
    set_length(phases, values->best_length, moment);
    return draft(values, values->best_length);
}

static struct draft_decision decide_refill(struct draft_phases *phases) {
    if (++phases->phase_ticks >= REFILL_TICKS) {
        enter(phases, DRAFT_PHASE_TRIAL);
    }
    return keep_learners_warm();
}

static struct draft_decision decide_on(struct draft_phases *phases, struct draft_guard *guard,
                                       const struct draft_moment *moment, const struct draft_values *values) {
    if (phases->on_ticks < TRIAL_FORGIVEN_TICKS && ++phases->on_ticks == TRIAL_FORGIVEN_TICKS) {
        phases->trial_wait_ticks = TRIAL_FIRST_WAIT;
    }
    if (phases->length > values->length_max) {
        return draft_in_small_room(phases, values, moment);
    }
    if (phases->probe_is_due || draft_guard_is_due(guard, moment->load)) {
        draft_guard_begin_probe(guard);
        phases->probe_is_due = false;
        phases->probe_load = moment->load;
        enter(phases, DRAFT_PHASE_PROBE);
        return (struct draft_decision){.regime = DRAFT_REGIME_COLD};
    }
    if (!is_elsewhere(phases, moment) && begin_excursion(phases, moment)) {
        return decide_excursion(phases, values);
    }
    follow_estimates(phases, values, moment);
    return phases->length > 0 ? draft(values, phases->length) : stay_off(phases, values);
}

static struct draft_decision decide_off(struct draft_phases *phases, const struct draft_moment *moment,
                                        const struct draft_values *values) {
    follow_estimates(phases, values, moment);
    if (phases->length > 0) {
        return draft(values, phases->length);
    }
    if (moment->tick >= phases->next_trial_tick && phases->purse_ticks >= 0 && values->length_max > 0) {
        enter(phases, DRAFT_PHASE_REFILL);
        struct draft_decision decision = decide_refill(phases);
        decision.begins_trial = true;
        return decision;
    }
    return stay_off(phases, values);
}

static struct draft_decision decide_probe(struct draft_phases *phases, struct draft_guard *guard,
                                          const struct draft_moment *moment) {
    if (moment->load != phases->probe_load || ++phases->phase_ticks >= PROBE_PATIENCE_TICKS) {
        draft_guard_abandon_probe(guard, phases->probe_load);
        enter(phases, DRAFT_PHASE_STEADY);
    }
    return (struct draft_decision){.regime = DRAFT_REGIME_COLD};
}

struct draft_decision draft_phases_decide(struct draft_phases *phases, struct draft_guard *guard,
                                          const struct draft_moment *moment,
                                          const struct draft_values *values) {
    bool is_forbidden = moment->draft_limit == 0 || values->plain_seconds <= 0 ||
                        draft_guard_holds(guard, moment->load, moment->tick);
    if (is_forbidden) {
        enter(phases, DRAFT_PHASE_STEADY);
        set_length(phases, 0, moment);
        phases->off_ticks = WARM_TICKS;
        return (struct draft_decision){.regime = DRAFT_REGIME_COLD};
    }
    phases->reference_rate =
        values->plain_rate * (phases->length <= values->length_max ? values->gain[phases->length] : 1);
    switch (phases->phase) {
    case DRAFT_PHASE_PROBE:
        return decide_probe(phases, guard, moment);
    case DRAFT_PHASE_REFILL:
        return decide_refill(phases);
    case DRAFT_PHASE_TRIAL:
        return decide_trial(phases, moment, values);
    case DRAFT_PHASE_CONFIRM:
        return decide_confirm(phases, moment, values);
    case DRAFT_PHASE_EXCURSION:
        if (phases->phase_ticks < EXCURSION_TICKS) {
            return decide_excursion(phases, values);
        }
        end_excursion(phases, moment, values);
        break;
    case DRAFT_PHASE_STEADY:
        break;
    }
    return phases->length > 0 ? decide_on(phases, guard, moment, values) : decide_off(phases, moment, values);
}

void draft_phases_account(struct draft_phases *phases, double tokens, double seconds, bool has_prompts) {
    bool is_paid = phases->phase != DRAFT_PHASE_STEADY && phases->phase != DRAFT_PHASE_PROBE;
    phases->purse_ticks += PURSE_SHARE;
    if (is_paid && !has_prompts && phases->reference_rate > 0) {
        phases->purse_ticks -= 1 - tokens / phases->reference_rate / seconds;
    }
    phases->purse_ticks = phases->purse_ticks < PURSE_TICKS ? phases->purse_ticks : PURSE_TICKS;
}

void draft_phases_forget(struct draft_phases *phases, int64_t tick) {
    phases->trial_wait_ticks = TRIAL_FIRST_WAIT;
    phases->next_trial_tick = tick;
    phases->excursion_wait_ticks = EXCURSION_FIRST_WAIT;
    phases->next_excursion_tick = tick;
    phases->probe_is_due = true;
}

void draft_phases_end_probe(struct draft_phases *phases) {
    enter(phases, DRAFT_PHASE_STEADY);
}
