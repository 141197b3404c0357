/* What the parts of a rank team that choose for all its ranks know of it. */
#ifndef SLUICE_ENGINE_RANK_TEAM_VIEW_H
#define SLUICE_ENGINE_RANK_TEAM_VIEW_H

#include "comm/comm.h"
#include "engine/job_internal.h"
#include "parallel/mesh.h"

/* All borrowed. */
struct rank_team_view {
    const struct mesh_shape *mesh;
    const struct sluice_job *job; /* NULL: all ranks are in this process */
    struct comm *everyone;        /* all processes of a job */
    int threads_per_rank;
};

#endif
