/*
 * One forward step, as a model sees it: where operations go, which rows there are, and the sequences' state.
 *
 * A model reads it and calls operations; it never learns the device, the numerics mode or the layout.
 */
#ifndef SLUICE_PARALLEL_STEP_H
#define SLUICE_PARALLEL_STEP_H

#include "comm/comm.h"
#include "ops/batch_view.h"
#include "ops/op_queue.h"
#include "ops/state_rows.h"

/* The groups of ranks that share a step's work; for parallel/ only. */
struct step_ranks {
    struct comm *tensor;         /* ranks of the stage; each has a part of the matrices */
    bool has_expert_parallelism; /* whole experts on these ranks, else every expert cut between them */
    int32_t *pair_experts;       /* host scratch [rows of a step * picks] */
    size_t *offsets;             /* host scratch [ranks + 1] */
};

struct step {
    struct op_queue *queue;
    const struct batch_view *batch;
    const struct state_rows *states; /* indexed as the model's state table */
    enum dtype activation;           /* element type of activations */
    const struct step_ranks *ranks;  /* NULL: one rank does it all */
};

/* A tensor in the step arena: STEP_TENSOR(step, step->activation, &x, rows, width). */
#define STEP_TENSOR(step, dtype, out, ...)                                             \
    TRY(device_arena_tensor((step)->queue->arena, (dtype),                             \
                            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                            (int64_t[]){__VA_ARGS__}, (out)))

#endif
