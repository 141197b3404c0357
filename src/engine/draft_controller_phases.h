/*
 * What the coming tick is for: drafting or not, or finding out something (spec parallelism, M-36 to M-38).
 *
 * Most ticks follow the estimates, with hysteresis. Some test them: the guard's probe without drafts, a trial
 * of drafting while it is off, an excursion to longer or shorter drafts while it is on. Trials and excursions
 * come ever more rarely while they find nothing, and pay what they lose out of a purse that fills with a
 * small share of all time; none begins while it is in debt.
 */
#ifndef SLUICE_ENGINE_DRAFT_CONTROLLER_PHASES_H
#define SLUICE_ENGINE_DRAFT_CONTROLLER_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft_controller.h"
#include "engine/draft_controller_choice.h"
#include "engine/draft_controller_guard.h"

enum draft_phase {
    DRAFT_PHASE_STEADY,
    DRAFT_PHASE_PROBE,     /* the guard's: drafting pauses */
    DRAFT_PHASE_REFILL,    /* before a trial: the draft layer's window fills */
    DRAFT_PHASE_TRIAL,     /* a little drafting while it is off */
    DRAFT_PHASE_CONFIRM,   /* after a trial that looked well: without drafts again, to compare with */
    DRAFT_PHASE_EXCURSION, /* other lengths while it is on */
};

struct draft_phases {
    enum draft_phase phase;
    int32_t phase_ticks;
    int32_t length;           /* longest draft of steady ticks; 0: drafting is off */
    int32_t right_load;       /* at which that was the best */
    int32_t other_best_ticks; /* ticks in a row in which another length seemed better */
    double missed_ticks;      /* that drafting would have saved, while it is off and seems better */
    int32_t off_ticks;        /* since drafting stopped */
    int32_t on_ticks;
    int32_t no_room_ticks; /* in a row, while drafting is on */
    int64_t trial_wait_ticks;
    int64_t next_trial_tick;
    int64_t excursion_wait_ticks;
    int64_t next_excursion_tick;
    bool excursion_is_shorter;
    int32_t excursion_length;
    bool probe_is_due;     /* sooner than the guard asks for one */
    int32_t probe_load;    /* of the guard's probe */
    double purse_ticks;    /* time that may be lost, in ticks: seconds of a slower past mean nothing */
    double reference_rate; /* tokens per second that the steady choice would bring now */
};

struct draft_decision {
    enum draft_regime regime;
    int32_t taken;        /* likeliest drafts to make */
    int32_t least_length; /* drafts that the first DRAFT_LEARNING_SEQUENCES make in any case */
    bool begins_trial;
    bool is_for_learners; /* only the first DRAFT_LEARNING_SEQUENCES take part */
};

/* The tick as phases see it. */
struct draft_moment {
    int64_t tick;
    int32_t sequence_count; /* at least 1 */
    int32_t load;           /* the guard's measure of it */
    int32_t other_rows;
    int32_t draft_limit; /* of the schedule, now */
};

void draft_phases_init(struct draft_phases *phases);

/* Decides the coming tick. */
struct draft_decision draft_phases_decide(struct draft_phases *phases, struct draft_guard *guard,
                                          const struct draft_moment *moment,
                                          const struct draft_values *values);

/* The decided tick took `seconds` for `tokens`; a tick with prompts only fills the purse. */
void draft_phases_account(struct draft_phases *phases, double tokens, double seconds, bool has_prompts);

/* Costs are not what they were: what trials, excursions and probes have shown is out of date. */
void draft_phases_forget(struct draft_phases *phases, int64_t tick);

/* The guard's probe has its verdict. */
void draft_phases_end_probe(struct draft_phases *phases);

#endif
