/*
 * Ranks of one replica: each has its own core, with its layers and its part of the matrices, and follows the
 * leader's executor (engine/executor_ranks.h).
 *
 * They are threads of this process, or each a process of a job (sluice/job.h); then this process has one
 * core. The leader is rank 0; its core is what the engine works with. A process's cores are opened on the
 * caller's thread; with threads, one per follower is started then.
 */
#ifndef SLUICE_ENGINE_RANK_TEAM_H
#define SLUICE_ENGINE_RANK_TEAM_H

#include "engine/engine_core.h"
#include "engine/job_internal.h"

struct rank_team;

/* Ranks that the options ask for. */
int rank_team_size(const struct sluice_parallel_options *parallel);

/*
 * Opens all cores of the checkpoint and starts the followers; in a job the other processes do their part.
 * `leader` belongs to the team: engine_core_close
 * closes both. UNSUPPORTED and BAD_CONFIG name what does not fit (spec parallelism 6.5).
 */
enum status rank_team_open(const struct sluice_engine_options *options, struct engine_core **leader);

/*
 * For a process of a job that does not lead: opens this rank's part of what the leader has ordered, follows
 * it and closes the core. OK also if the ranks agreed that the engine cannot be opened, which the leader
 * reports.
 */
enum status rank_team_follow(const struct sluice_engine_options *options, const struct job_order *order);

/* Ends the followers and closes their cores; the leader's executor must still be there. Nulls. */
void rank_team_close(struct rank_team **team);

#endif
