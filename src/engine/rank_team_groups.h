/* The groups of a team's ranks: ends of this process's threads, or of the processes of a job. */
#ifndef SLUICE_ENGINE_RANK_TEAM_GROUPS_H
#define SLUICE_ENGINE_RANK_TEAM_GROUPS_H

#include "engine/executor_ranks.h"
#include "engine/job_internal.h"
#include "parallel/mesh.h"

enum { TEAM_RANKS_MAX = 64 };

/* ranks[i]: rank i's ends, to be filled in; all are in this process. */
enum status rank_team_make_thread_groups(const struct mesh_shape *mesh, struct executor_ranks **ranks);

/* The ends of this process's rank. */
enum status rank_team_make_job_groups(const struct mesh_shape *mesh, struct sluice_job *job,
                                      const struct job_order *order, struct executor_ranks *ranks);

#endif
