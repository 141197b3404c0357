/*
 * One forward step, as a model sees it: where operations go, which rows there are, and the sequences' state.
 *
 * A model reads it and calls operations; it never learns the device, the numerics mode or the layout.
 */
#ifndef SLUICE_PARALLEL_STEP_H
#define SLUICE_PARALLEL_STEP_H

#include "comm/comm.h"
#include "ops/batch_view.h"
#include "ops/numerics.h"
#include "ops/op_queue.h"
#include "ops/state_rows.h"

enum { STEP_RANKS_MAX = 64 };

/*
 * How a step's rows are dealt out over the ranks of a stage (sequence parallelism): rank r has rows first[r]
 * to first[r + 1] - 1. A dry run is that of rank 0, whose share is never smaller than another's.
 */
struct row_shares {
    int64_t first[STEP_RANKS_MAX + 1];
};

/* How rows get to the ranks of their experts where rows are dealt out (spec parallelism 5.2). */
enum expert_exchange {
    EXPERT_EXCHANGE_GATHER,   /* all rows to all ranks; results return to the rows' owners (AG/RS) */
    EXPERT_EXCHANGE_DISPATCH, /* each row to the ranks that have some of its experts (A2A) */
};

struct expert_balance;

/* The groups of ranks that share a step's work; for parallel/ only. Dry runs need no communicators. */
struct step_ranks {
    struct comm *tensor;  /* ranks of the stage; each has a part of the matrices */
    int rank;             /* this one's place among them, */
    int count;            /* and how many there are */
    struct comm *experts; /* ranks that share experts: the stage's, of all replicas that share them */
    int expert_rank;
    int expert_rank_count;
    bool has_expert_parallelism; /* whole experts on these ranks, else every expert cut between them */
    enum expert_exchange exchange;
    enum numerics numerics;   /* what of a row travels to its experts (spec parallelism E-5) */
    const bool *gathers_late; /* [layers, then the draft layer]: whose first projections of attention run on
                                 the own rows (spec parallelism 3.6); NULL: none */
    int32_t *pair_experts;    /* host scratch [rows of a step, of all replicas * picks] */
    struct expert_balance *balance; /* NULL: whole experts lie in order, each on one rank */
    int32_t *own_picks;             /* with it: host scratch as pair_experts */
    size_t *offsets;                /* host scratch [2 * (expert ranks + 1)] */
};

struct step {
    struct op_queue *queue;
    const struct batch_view *batch;
    const struct state_rows *states; /* indexed as the model's state table */
    enum dtype activation;           /* element type of activations */
    const struct step_ranks *ranks;  /* NULL: one rank does it all */
    const struct row_shares *shares; /* NULL: every rank works on all rows; for parallel/ only */
    /* Which rows of all replicas each expert rank brings; NULL: every rank has all rows; for parallel/ only.
     */
    const struct row_shares *expert_shares;
};

/* A tensor in the step arena: STEP_TENSOR(step, step->activation, &x, rows, width). */
#define STEP_TENSOR(step, dtype, out, ...)                                             \
    TRY(device_arena_tensor((step)->queue->arena, (dtype),                             \
                            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                            (int64_t[]){__VA_ARGS__}, (out)))

#endif
