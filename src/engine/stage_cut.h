/*
 * Which layers each pipeline stage has: those that the options name, or those that serve the objective best
 * of all cuts that fit into memory (spec parallelism P-3 to P-5, P-38).
 *
 * - decode: stages take equally long in a decoding step. All sequences run, in as many groups as ticks are
 *   under way. At small batches the head costs as much as several layers, and a draft as much again. Where
 *   the engine chooses the number of drafts, the cut is for steps without, so that nobody is slower with
 *   drafting on than off; if steps with one draft promise a fifth more tokens in the time, it is the one that
 *   loses least with either.
 * - prefill: stages take equally long in the largest step of a prompt.
 * - kv: the stage that has room for the fewest tokens has room for most; among such cuts as for decoding.
 *
 * How long a layer takes follows from a profile of the device, if one is given (engine/device_profile.h): it
 * takes what its slower limit does, reading or computing. Else it is measured (engine/stage_probe.h), by the
 * rank that opens the others, if there is something to choose. Else it is counted: a decoding step takes the
 * bytes that it reads, a prompt's the operations. Counts know nothing of caches and of what every operation
 * costs besides; but they are the same each time. So the cut by counts stays unless the measured one beats it
 * by 3 %, more than measurements waver. All ranks take one rank's cut, and no bit depends on it.
 */
#ifndef SLUICE_ENGINE_STAGE_CUT_H
#define SLUICE_ENGINE_STAGE_CUT_H

#include "engine/stage_bytes.h"
#include "engine/stage_point.h"
#include "model/model.h"
#include "sluice/engine.h"

/* Measures steps, as stage_probe_measure does. */
struct stage_meter {
    enum status (*measure)(void *context, const struct stage_bytes *bytes, const struct stage_point *points,
                           int count, struct stage_costs *costs);
    void *context;
};

/*
 * The cut of the whole model for these options, with the defaults worked out, and its imbalance: largest over
 * mean stage cost of a decoding step, or for `prefill` of a prompt's. first_layers: [stages + 1]. USAGE says
 * what is wrong with a partition that was named, BAD_CONFIG that there are more stages than layers, or what a
 * profile lacks. Where nothing fits, the log says so and the cut is the one without limits: weights are
 * mapped, and slow if memory lacks. `meter` NULL: costs are counted; so they are where it fails, and the log
 * says why.
 */
enum status stage_cut_choose(struct model *model, const struct sluice_engine_options *options,
                             const struct stage_memory *memory, const struct stage_meter *meter,
                             int *first_layers, double *imbalance);

#endif
