/* The groups of a team's ranks: ends of this process's threads, or of the processes of a job. */
#ifndef SLUICE_ENGINE_RANK_TEAM_GROUPS_H
#define SLUICE_ENGINE_RANK_TEAM_GROUPS_H

#include "engine/executor_ranks.h"
#include "engine/job_internal.h"
#include "parallel/mesh.h"

enum { TEAM_RANKS_MAX = JOB_RANKS_MAX };

/*
 * Whether the leader of a replica is none of its ranks (engine/outside_leader.h). A job's first process,
 * which leads all, is a rank of the first replica only.
 */
bool rank_team_is_led_from_outside(const struct mesh_shape *mesh, bool is_job, int replica);

/* Leaders from outside that are in this process: those of the last `count` replicas. */
struct outside_ends {
    struct executor_ranks **leaders;
    int count;
};

/* ranks[i]: rank i's ends, to be filled in; all are in this process. */
enum status rank_team_make_thread_groups(const struct mesh_shape *mesh, struct executor_ranks **ranks,
                                         const struct outside_ends *outside);

/* What a process of a job has in its hands. */
struct job_ends {
    struct comm **everyone;       /* the group of all ranks of all replicas, which open an engine together */
    struct executor_ranks *ranks; /* this process's rank */
    struct outside_ends outside;  /* in the first process */
};

/* The ends of this process. The leaders' group is one of threads, for all are in the first process. */
enum status rank_team_make_job_groups(const struct mesh_shape *mesh, struct sluice_job *job,
                                      const struct job_order *order, const struct job_ends *ends);

#endif
