/*
 * Ranks of one replica, or of several that share experts: each has its own core, with its layers and its part
 * of the matrices, and follows its leader's executor (engine/executor_ranks.h).
 *
 * They are threads of this process, or each a process of a job (sluice/job.h); then this process has one
 * core. The leader is the first rank of a replica; its core is what the engine works with. A process's cores
 * are opened on the caller's thread; with threads, one per follower is started then.
 */
#ifndef SLUICE_ENGINE_RANK_TEAM_H
#define SLUICE_ENGINE_RANK_TEAM_H

#include "engine/engine_core.h"
#include "engine/job_internal.h"

struct rank_team;

/* Replicas that share experts; 1: there is one replica. */
int rank_team_replicas(const struct sluice_parallel_options *parallel);

/* Ranks that the options ask for; INT_MAX: far too many. */
int rank_team_size(const struct sluice_parallel_options *parallel);

/* UNSUPPORTED or OUT_OF_RANGE with what no engine can have; the log has what is seldom meant. */
enum status rank_team_check_options(const struct sluice_engine_options *options);

/*
 * Opens all cores of the checkpoint and starts the followers; in a job the other processes do their part.
 * `leaders`, as many as replicas, belong to the team: the engine_core_close of the last one closes all.
 * UNSUPPORTED and BAD_CONFIG name what does not fit (spec parallelism 6.5).
 */
enum status rank_team_open(const struct sluice_engine_options *options, struct engine_core **leaders);

/*
 * For a process of a job that does not lead: opens this rank's part of what the leader has ordered, follows
 * it and closes the core. OK also if the ranks agreed that the engine cannot be opened, which the leader
 * reports.
 */
enum status rank_team_follow(const struct sluice_engine_options *options, const struct job_order *order);

/* Whether a rank that is a thread hangs (engine/rank_watchdog.h): nothing of its engine runs any more. */
bool rank_team_is_hanging(const struct rank_team *team);

/*
 * For a leader's core: the last one ends the followers and closes all cores, and waits for those of other
 * processes that have ended in order; the leaders' executors must still be there. Nulls. If a rank hangs all
 * that it works with stays until the process ends.
 */
void rank_team_close(struct rank_team **team);

#endif
