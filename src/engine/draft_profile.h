/*
 * What steps and draft passes cost on this machine, measured when an engine starts (spec parallelism M-35).
 */
#ifndef SLUICE_ENGINE_DRAFT_PROFILE_H
#define SLUICE_ENGINE_DRAFT_PROFILE_H

#include "engine/draft_controller.h"
#include "engine/engine_core.h"

/*
 * Times steps of 1, 2, 4, ... rows over the core's slots, and draft passes of 1, 2, 4, ... sequences, twice
 * each, for half a second in all at most, and tells the controller. These are rounds of the runner, so that
 * each part runs where it will. Leaves rows in state that nobody reads. Nothing else may run.
 *
 * Collective where replicas share experts: all have the same rounds at the same time, and agree on each
 * whether it is the last. `exchanges` counts these agreements, as those before ticks (engine/lockstep.h).
 */
enum status draft_profile_measure(const struct engine_core *core, struct round_runner *runner,
                                  struct draft_controller *controller, uint64_t *exchanges);

#endif
