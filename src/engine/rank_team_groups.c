/* Names of groups say where a rank is: they are in every sentence about a peer that is lost. */
#include "engine/rank_team_groups.h"

#include <stdio.h>

#include "comm/comm_threads.h"

enum group_kind { GROUP_CONTROL, GROUP_TENSOR, GROUP_PIPELINE };

/* One group of a kind that `rank` is the first of: an end for each member. */
static enum status make_thread_group(const struct mesh_shape *mesh, enum mesh_group kind, int rank,
                                     struct executor_ranks **ranks) {
    int size = mesh_group_size(mesh, kind);
    int members[TEAM_RANKS_MAX];
    struct comm *ends[TEAM_RANKS_MAX];
    if (mesh_group_index(mesh, kind, rank) != 0) {
        return STATUS_OK;
    }
    mesh_group_ranks(mesh, kind, rank, members);
    TRY(comm_threads_create(size, ends));
    for (int i = 0; i < size; i++) {
        struct executor_ranks *of_rank = ranks[members[i]];
        *(kind == MESH_GROUP_TENSOR ? &of_rank->step.tensor : &of_rank->pipeline) = ends[i];
    }
    return STATUS_OK;
}

enum status rank_team_make_thread_groups(const struct mesh_shape *mesh, struct executor_ranks **ranks) {
    struct comm *ends[TEAM_RANKS_MAX];
    int size = mesh_rank_count(mesh);
    TRY(comm_threads_create(size, ends));
    for (int rank = 0; rank < size; rank++) {
        ranks[rank]->control = ends[rank];
        comm_set_idle_deadline(ends[rank], COMM_NO_DEADLINE_SECONDS);
    }
    for (int rank = 0; rank < size; rank++) {
        TRY(make_thread_group(mesh, MESH_GROUP_TENSOR, rank, ranks));
        if (mesh->pipeline > 1) {
            TRY(make_thread_group(mesh, MESH_GROUP_PIPELINE, rank, ranks));
        }
    }
    return STATUS_OK;
}

static enum status make_job_group(const struct mesh_shape *mesh, struct sluice_job *job,
                                  const struct job_order *order, enum mesh_group kind, int group,
                                  struct comm **out) {
    static const char *const names[] = {
        [MESH_GROUP_TENSOR] = "tensor group", [MESH_GROUP_PIPELINE] = "pipeline"};
    struct mesh_place place = mesh_place_of(mesh, job->rank);
    int members[TEAM_RANKS_MAX];
    char name[128];
    mesh_group_ranks(mesh, kind, job->rank, members);
    TRY(job_make_group(job, order, group, members, mesh_group_size(mesh, kind), out));
    snprintf(name, sizeof name, "%s, stage %d, host %s", names[kind], place.pipeline,
             job->hosts[job->rank].name);
    comm_set_name(*out, name);
    return STATUS_OK;
}

enum status rank_team_make_job_groups(const struct mesh_shape *mesh, struct sluice_job *job,
                                      const struct job_order *order, struct executor_ranks *ranks) {
    int all[TEAM_RANKS_MAX];
    char name[128];
    for (int i = 0; i < job->size; i++) {
        all[i] = i;
    }
    TRY(job_make_group(job, order, GROUP_CONTROL, all, job->size, &ranks->control));
    snprintf(name, sizeof name, "all ranks, stage %d, host %s", mesh_place_of(mesh, job->rank).pipeline,
             job->hosts[job->rank].name);
    comm_set_name(ranks->control, name);
    comm_set_idle_deadline(ranks->control, COMM_NO_DEADLINE_SECONDS);
    TRY(make_job_group(mesh, job, order, MESH_GROUP_TENSOR, GROUP_TENSOR, &ranks->step.tensor));
    if (mesh->pipeline > 1) {
        TRY(make_job_group(mesh, job, order, MESH_GROUP_PIPELINE, GROUP_PIPELINE, &ranks->pipeline));
    }
    return STATUS_OK;
}
