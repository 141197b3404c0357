/*
 * An executor's place among the ranks that run one replica together.
 *
 * The first of the control group leads: what is asked of it goes to all others as plan records, to the first
 * rank of each stage and from there to the stage's other ranks. All do it, each with its layers and its part
 * of the matrices, as soon as the stage before has: so several steps are under way at once. The first rank of
 * the last stage chooses tokens and says what it chose to the leader.
 *
 * Replicas may share experts. Then all of them run the same sequence of steps, and a stage's step meets those
 * of the same stage elsewhere in each of its layers with experts; a replica without work has steps without
 * rows (spec parallelism 5.6).
 *
 * The leader is the replica's first rank. Where such replicas have several stages it is not: each of them is
 * led from outside, in its control group, without a stage and a device (engine/outside_leader.h), so that the
 * next step is planned and agreed on while the first stage computes. Where they are processes the leaders are
 * in the job's first one, and only the first replica can be led by its first rank.
 */
#ifndef SLUICE_ENGINE_EXECUTOR_RANKS_H
#define SLUICE_ENGINE_EXECUTOR_RANKS_H

#include <stdint.h>

#include "comm/comm.h"
#include "engine/plan_record.h"
#include "model/model.h"
#include "parallel/expert_balance.h"
#include "parallel/sharing_choice.h"
#include "parallel/step.h"
#include "sluice/engine.h"

/* Ticks that may have to read weights: waits have longer deadlines in them. */
enum { EXECUTOR_WARM_UP_TICKS = 8 };

struct rank_pulse;

struct executor_ranks {
    struct step_ranks step; /* of the stage; its scratch is the executor's to make */
    struct comm *control;  /* the leader and all ranks, by stage and in it by tensor rank; owned by the rank's
                              thread */
    int control_first;     /* the first rank there: 1 behind a leader from outside, else 0 */
    struct comm *pipeline; /* ranks of the same tensor rank, by stage; NULL with one stage */
    struct comm *leaders;  /* of the replicas that share experts; NULL elsewhere */
    int number;            /* of all ranks, those of other replicas included */
    int replica;           /* of those that share experts, */
    int replica_count;     /* and how many there are */
    uint32_t epoch;        /* in front of boundaries: another for each engine that a job opens; 0: threads */
    int stage;             /* -1: none, a leader from outside */
    int stage_count;
    int64_t shared_rows_min; /* steps of so many rows deal them out over the tensor ranks (S-28) */
    int64_t vocabulary_part; /* rows of the head that this rank has; on the last stage */
    struct plan_bounds bounds;
    int in_flight_limit;           /* rounds under way at once, */
    int record_limit;              /* and records: more where prefixes are kept on disk */
    struct expert_balance balance; /* where whole experts move (executor_balance.h); else zeroed */
    int32_t draft_window;          /* rows of the draft layer's largest ring, on whichever stage it is */
    int64_t balance_interval;      /* steps from one placement to the next */
    int64_t balance_steps;         /* that the stage has begun */
    int64_t expert_moves;          /* experts that this rank got of others */
    double expert_imbalance;       /* before the last choice of a placement, on its first rank; 0: none yet */
    struct comm_watch *watch;      /* NULL: nobody looks */
    struct rank_pulse *pulse;      /* of a rank that is a thread; NULL: nobody looks */
    double deadline_seconds;       /* of waits once the first ticks are over; 0: the groups' own */
};

/* The rank that chooses tokens, in the control group. */
static inline int executor_ranks_chooser(const struct executor_ranks *ranks) {
    return ranks->control_first + (ranks->stage_count - 1) * ranks->step.count;
}

/* Whether this is a rank of the replica: what else has ranks is a leader from outside. */
static inline bool executor_ranks_has_stage(const struct executor_ranks *ranks) {
    return ranks->stage >= 0;
}

/* Ends the waits of all groups that this rank is in. */
void executor_ranks_abort(const struct executor_ranks *ranks, const char *reason);

/*
 * A step begins: who watches sees its number, and after the first few, which may read weights from a cold
 * disk for minutes, waits have their deadline.
 */
void executor_ranks_begin_tick(struct executor_ranks *ranks, uint64_t number);

/* How the ranks of a stage share rows: what the options ask for, with the engine's choices for the rest. */
void executor_ranks_share_rows(struct executor_ranks *ranks, const struct sluice_parallel_options *parallel,
                               const struct model *model);

/* How shared rows get to experts of so many ranks. */
enum expert_exchange executor_ranks_exchange(const struct sluice_parallel_options *parallel,
                                             const struct model *model, int expert_ranks);

/* Whether attentions that want `rows` gather what their first projections give, rather than rows (S-15). */
bool executor_ranks_gathers_late(const struct sluice_parallel_options *parallel,
                                 const struct sharing_rates *rates, const struct attention_rows *rows);

/* Rows from which on a step's rows are shared (spec S-28); INT64_MAX: never. */
int64_t executor_ranks_shared_rows_min(const struct sluice_parallel_options *parallel);

/* Whether every rank of a stage has the shared experts whole, given the rows of the largest step (S-13). */
bool executor_ranks_have_whole_experts(const struct sluice_parallel_options *parallel,
                                       const struct model *model, int step_rows,
                                       const struct sharing_rates *rates);

#endif
