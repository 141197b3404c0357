/*
 * Ranks of one replica as threads of this process: each has its own core, with its layers and its part of the
 * matrices, and follows the leader's executor (engine/executor_ranks.h).
 *
 * The leader is rank 0; its core is what the engine works with. All cores are opened on the caller's thread,
 * then one thread per follower is started.
 */
#ifndef SLUICE_ENGINE_RANK_TEAM_H
#define SLUICE_ENGINE_RANK_TEAM_H

#include "engine/engine_core.h"

struct rank_team;

/* Ranks that the options ask for. */
int rank_team_size(const struct sluice_parallel_options *parallel);

/*
 * Opens all cores of the checkpoint and starts the followers. `leader` belongs to the team: engine_core_close
 * closes both. UNSUPPORTED and BAD_CONFIG name what does not fit (spec parallelism 6.5).
 */
enum status rank_team_open(const struct sluice_engine_options *options, struct engine_core **leader);

/* Ends the followers and closes their cores; the leader's executor must still be there. Nulls. */
void rank_team_close(struct rank_team **team);

#endif
