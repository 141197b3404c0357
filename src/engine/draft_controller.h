/*
 * How many tokens to draft: the choice that makes tokens come fastest, and a guard that it really does
 * (spec parallelism 4.8, M-33 to M-40).
 *
 * Before each tick the controller is told who runs and answers with a number of drafts per sequence and a
 * regime; after it, how long the parts took and how many drafts each sequence had accepted. Costs start from
 * a profile and are refined with every tick; acceptance is estimated per sequence and draft position, from a
 * prior by temperature class. It reads no clock and no random number: equal calls give equal answers. No
 * allocation after creation, a few microseconds per tick. One thread at a time. docs/mtp.md tells how it
 * decides.
 */
#ifndef SLUICE_ENGINE_DRAFT_CONTROLLER_H
#define SLUICE_ENGINE_DRAFT_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { DRAFT_LIMIT_MAX = 16, DRAFT_TICKS_UNDER_WAY_MAX = 128 };

enum draft_regime {
    DRAFT_REGIME_COLD, /* nothing of the draft layer runs (M-36) */
    DRAFT_REGIME_WARM, /* its state rows are written, nothing is drafted */
    DRAFT_REGIME_DRAFT,
};

struct draft_controller;

/*
 * A row of a schedule: with up to `sequence_count` running sequences at most `draft_limit` drafts (M-40);
 * with more than the last row has, its limit. It caps fixed lengths too.
 */
struct draft_schedule_row {
    int32_t sequence_count;
    int32_t draft_limit;
};

struct draft_controller_options {
    int32_t draft_limit;                       /* K_max, 1 to DRAFT_LIMIT_MAX */
    int32_t slot_count;                        /* sequences are named by slot, below this */
    bool is_adaptive;                          /* false: always draft_limit, DRAFT, no guard */
    const struct draft_schedule_row *schedule; /* rising counts; copied; NULL: none */
    int32_t schedule_row_count;
};

/* A sequence that decodes in the coming tick. */
struct draft_candidate {
    int32_t slot;
    int32_t pending_drafts; /* drafts that this tick verifies, made in the tick before */
    int32_t draft_room; /* most drafts that may be made now for the next tick (length limits, constraints) */
};

/* The coming tick as the planner sees it. */
struct draft_tick {
    const struct draft_candidate *candidates;
    int32_t candidate_count;
    int32_t other_rows;        /* rows of prompts in the same tick */
    int32_t prompt_draft_rows; /* of prompts' rows, those that the draft layer would have to write */
    int32_t context_tokens;    /* mean context of the candidates */
};

/* What the draft layer does in a tick. For whom it does nothing all is as in COLD: a trial needs only a few.
 */
struct draft_orders {
    enum draft_regime regime;
    int32_t participant_count; /* of the candidates the first ones; 0 in COLD */
    bool has_prompts;          /* they take part too: only if all candidates do */
};

/* What a tick gave, for the sequences of its draft_tick in the same order. */
struct draft_outcome {
    const int32_t *verified; /* [candidate_count] drafts that were verified */
    const int32_t *accepted; /* [candidate_count] of them accepted */
    double step_seconds;     /* verify rows through the layers, head and choice */
    double draft_seconds;    /* catch-up and draft passes; 0 in COLD */
};

/* Counters of M-45. Ticks without candidates are not counted. */
struct draft_counters {
    int64_t rounds;   /* sequence rounds: a sequence's rows in a tick */
    int64_t proposed; /* draft tokens made */
    int64_t verified[DRAFT_LIMIT_MAX];
    int64_t accepted[DRAFT_LIMIT_MAX];            /* by draft position */
    int64_t emitted;                              /* tokens */
    int64_t ticks_by_length[DRAFT_LIMIT_MAX + 1]; /* of the longest draft made */
    int64_t warm_ticks;
    int64_t cold_ticks;
    int32_t length;           /* of the last tick: of the longest draft */
    enum draft_regime regime; /* the same */
    int64_t switches;         /* changes of the tick's draft length */
    int64_t guard_trips;      /* times that drafting lost against its probe */
    double probe_gain;        /* tokens per second of drafting over those of the last probe; 0: none yet */
    double draft_fraction;    /* share of time spent drafting */
};

/* OUT_OF_RANGE with a sentence for the user if the limit or the schedule is outside its bounds. */
enum status draft_controller_create(const struct draft_controller_options *options,
                                    struct draft_controller **out);

/* Frees and nulls; NULL inside is allowed. */
void draft_controller_destroy(struct draft_controller **controller);

/*
 * Measured at start: a step of `rows` rows, or draft passes (`drafts` of them) over `rows` sequences, 0 for
 * catching up alone. Best in rising order of `drafts`: what each pass adds is told apart by the ones before.
 * Without any the first tick is COLD and measures.
 */
void draft_controller_set_step_cost(struct draft_controller *controller, int32_t rows, double seconds);
void draft_controller_set_draft_cost(struct draft_controller *controller, int32_t rows, int32_t drafts,
                                     double seconds);

/* The same of catching up on so many rows of prompts, many and nothing else. */
void draft_controller_set_prompt_cost(struct draft_controller *controller, int32_t rows, double seconds);

/* A sequence begins in `slot`: its estimates start from the prior of its temperature class. */
void draft_controller_start_sequence(struct draft_controller *controller, int32_t slot, double temperature);

/*
 * Decides the coming tick: drafts[i] for candidate i (0 to its draft_room) to be made at the end of this
 * tick. In COLD and WARM all are 0. Drafts that are pending from before a COLD tick are verified in it all
 * the same. Without candidates the regime says whether prompts should write the draft layer's state.
 */
struct draft_orders draft_controller_plan(struct draft_controller *controller, const struct draft_tick *tick,
                                          int32_t *drafts);

/*
 * Tells what the oldest planned tick gave that is not yet observed. Of these there are at most
 * DRAFT_TICKS_UNDER_WAY_MAX.
 */
void draft_controller_observe(struct draft_controller *controller, const struct draft_tick *tick,
                              const struct draft_outcome *outcome);

/* Nothing of what is planned will be observed. */
void draft_controller_forget_ticks(struct draft_controller *controller);

struct draft_counters draft_controller_counters(const struct draft_controller *controller);

#endif
