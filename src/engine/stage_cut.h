/*
 * Which layers each pipeline stage has: those that the options name, or a cut into stages that take equally
 * long.
 *
 * Time is taken to be the bytes that a decoding step reads, at the design point: all sequences run, in as
 * many groups as ticks are under way, each with one draft where drafting is on (spec parallelism P-3, P-4).
 * At small batches the head costs as much as several layers.
 */
#ifndef SLUICE_ENGINE_STAGE_CUT_H
#define SLUICE_ENGINE_STAGE_CUT_H

#include "model/model.h"
#include "sluice/engine.h"

/*
 * The cut of the whole model for these options, with the defaults worked out, and its imbalance: largest over
 * mean stage cost. first_layers: [stages + 1]. USAGE says what is wrong with a partition that was named,
 * BAD_CONFIG that there are more stages than layers.
 */
enum status stage_cut_choose(struct model *model, const struct sluice_engine_options *options,
                             int *first_layers, double *imbalance);

#endif
