/* The groups of a team's ranks: ends of this process's threads, or of the processes of a job. */
#ifndef SLUICE_ENGINE_RANK_TEAM_GROUPS_H
#define SLUICE_ENGINE_RANK_TEAM_GROUPS_H

#include "engine/executor_ranks.h"
#include "engine/job_internal.h"
#include "parallel/mesh.h"

enum { TEAM_RANKS_MAX = JOB_RANKS_MAX };

/* ranks[i]: rank i's ends, to be filled in; all are in this process. */
enum status rank_team_make_thread_groups(const struct mesh_shape *mesh, struct executor_ranks **ranks);

/* What a process of a job has in its hands. */
struct job_ends {
    struct comm **everyone;       /* the group of all ranks of all replicas, which open an engine together */
    struct executor_ranks *ranks; /* this process's rank */
    struct executor_ranks **others; /* in the first process: [replicas - 1], leaders from outside */
};

/* The ends of this process. The leaders' group is one of threads, for all are in the first process. */
enum status rank_team_make_job_groups(const struct mesh_shape *mesh, struct sluice_job *job,
                                      const struct job_order *order, const struct job_ends *ends);

#endif
