/*
 * Which layers each pipeline stage has: those that the options name, or those that serve the objective best
 * of all cuts that fit into memory (spec parallelism P-3 to P-5, P-38).
 *
 * - decode: stages take equally long in a decoding step, which is taken to be the bytes that it reads. All
 *   sequences run, in as many groups as ticks are under way. At small batches the head costs as much as
 * several layers, and a draft as much again; where the engine chooses the number of drafts, steps with one
 * draft and without must both do, and the cut is the one that loses least with either.
 * - prefill: stages take equally long in the largest step of a prompt, which is taken to be its operations.
 * - kv: the stage that has room for the fewest tokens has room for most; among such cuts as for decoding.
 */
#ifndef SLUICE_ENGINE_STAGE_CUT_H
#define SLUICE_ENGINE_STAGE_CUT_H

#include "engine/state_pool.h"
#include "model/model.h"
#include "sluice/engine.h"

/* What stages hold, and may hold. */
struct stage_memory {
    const struct state_table *states;
    struct state_pool_options pool; /* its slots and contexts */
    const double *byte_limits;      /* [stages]: of all ranks of a stage; infinite: no matter */
};

/*
 * The cut of the whole model for these options, with the defaults worked out, and its imbalance: largest over
 * mean stage cost of a decoding step, or for `prefill` of a prompt's. first_layers: [stages + 1]. USAGE says
 * what is wrong with a partition that was named, BAD_CONFIG that there are more stages than layers. Where
 * nothing fits, the log says so and the cut is the one without limits: weights are mapped, and slow if memory
 * lacks.
 */
enum status stage_cut_choose(struct model *model, const struct sluice_engine_options *options,
                             const struct stage_memory *memory, int *first_layers, double *imbalance);

#endif
