/* Names of groups say where a rank is: they are in every sentence about a peer that is lost. */
#include "engine/rank_team_groups.h"

#include <stdio.h>

#include "comm/comm_threads.h"

/* Beside the groups of a mesh. */
enum { GROUP_ALL = MESH_GROUP_EXPERT + 1 };

/* Where a rank keeps its end of a group of a kind. */
static struct comm **end_of(struct executor_ranks *ranks, enum mesh_group kind) {
    switch (kind) {
    case MESH_GROUP_TENSOR:
        return &ranks->step.tensor;
    case MESH_GROUP_PIPELINE:
        return &ranks->pipeline;
    case MESH_GROUP_DATA:
        return &ranks->leaders;
    case MESH_GROUP_EXPERT:
        return &ranks->step.experts;
    }
    return NULL;
}

/* Where there is one replica its ranks' numbers say enough. */
static void name_end(const struct mesh_shape *mesh, int kind, int rank, struct comm *end) {
    static const char *const names[] = {[MESH_GROUP_TENSOR] = "tensor group",
                                        [MESH_GROUP_PIPELINE] = "pipeline",
                                        [MESH_GROUP_DATA] = "leaders of all replicas",
                                        [MESH_GROUP_EXPERT] = "ranks that share experts",
                                        [GROUP_ALL] = "all ranks"};
    struct mesh_place place = mesh_place_of(mesh, rank);
    char name[128];
    if (mesh->data > 1) {
        snprintf(name, sizeof name, "%s, replica %d, stage %d", names[kind], place.data, place.pipeline);
        comm_set_name(end, name);
    }
}

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
        *end_of(ranks[members[i]], kind) = ends[i];
        name_end(mesh, kind, members[i], ends[i]);
    }
    return STATUS_OK;
}

/* All ranks of a replica. */
static enum status make_control_group(const struct mesh_shape *mesh, int replica,
                                      struct executor_ranks **ranks) {
    struct comm *ends[TEAM_RANKS_MAX];
    int size = mesh_rank_count(mesh) / mesh->data;
    TRY(comm_threads_create(size, ends));
    for (int i = 0; i < size; i++) {
        ranks[replica * size + i]->control = ends[i];
        name_end(mesh, GROUP_ALL, replica * size + i, ends[i]);
        comm_set_idle_deadline(ends[i], COMM_NO_DEADLINE_SECONDS);
    }
    return STATUS_OK;
}

/* What replicas that share experts need besides. */
static enum status join_replicas(const struct mesh_shape *mesh, int rank, struct executor_ranks **ranks) {
    struct mesh_place place = mesh_place_of(mesh, rank);
    if (place.pipeline == 0 && place.tensor == 0) {
        TRY(make_thread_group(mesh, MESH_GROUP_DATA, rank, ranks));
    }
    return make_thread_group(mesh, MESH_GROUP_EXPERT, rank, ranks);
}

enum status rank_team_make_thread_groups(const struct mesh_shape *mesh, struct executor_ranks **ranks) {
    for (int replica = 0; replica < mesh->data; replica++) {
        TRY(make_control_group(mesh, replica, ranks));
    }
    for (int rank = 0; rank < mesh_rank_count(mesh); rank++) {
        TRY(make_thread_group(mesh, MESH_GROUP_TENSOR, rank, ranks));
        if (mesh->pipeline > 1) {
            TRY(make_thread_group(mesh, MESH_GROUP_PIPELINE, rank, ranks));
        }
        if (mesh->data > 1) {
            TRY(join_replicas(mesh, rank, ranks));
        } else {
            ranks[rank]->step.experts = ranks[rank]->step.tensor;
        }
    }
    return STATUS_OK;
}

/* What groups of a job are for: their number among those of a team. Those of replicas come last. */
enum job_group {
    JOB_GROUP_EVERYONE,
    JOB_GROUP_TENSOR,
    JOB_GROUP_PIPELINE,
    JOB_GROUP_EXPERT,
    JOB_GROUP_CONTROL
};

/* Where a process is, and with whom, is in the sentences. */
static void name_job_end(const struct mesh_shape *mesh, const struct sluice_job *job, const char *group,
                         int replica, struct comm *end) {
    char name[128];
    char of_replica[32] = "";
    if (mesh->data > 1) {
        snprintf(of_replica, sizeof of_replica, ", replica %d", replica);
    }
    snprintf(name, sizeof name, "%s%s, stage %d, host %s", group, of_replica,
             mesh_place_of(mesh, job->rank).pipeline, job->hosts[job->rank].name);
    comm_set_name(end, name);
}

static int replica_of(const struct mesh_shape *mesh, const struct sluice_job *job) {
    return mesh_place_of(mesh, job->rank).data;
}

static enum status make_job_group(const struct mesh_shape *mesh, struct sluice_job *job,
                                  const struct job_order *order, enum mesh_group kind, enum job_group group,
                                  struct comm **out) {
    static const char *const names[] = {[MESH_GROUP_TENSOR] = "tensor group",
                                        [MESH_GROUP_PIPELINE] = "pipeline",
                                        [MESH_GROUP_EXPERT] = "ranks that share experts"};
    int members[TEAM_RANKS_MAX];
    mesh_group_ranks(mesh, kind, job->rank, members);
    TRY(job_make_group(job, order, (int)group, members, mesh_group_size(mesh, kind), out));
    name_job_end(mesh, job, names[kind], replica_of(mesh, job), *out);
    return STATUS_OK;
}

/* The ranks of a replica, behind the first process if that is not one of them. */
static enum status make_job_control(const struct mesh_shape *mesh, struct sluice_job *job,
                                    const struct job_order *order, int replica,
                                    struct executor_ranks *ranks) {
    int members[TEAM_RANKS_MAX + 1] = {0};
    int size = mesh_rank_count(mesh) / mesh->data;
    int leaders = replica > 0;
    for (int i = 0; i < size; i++) {
        members[leaders + i] = replica * size + i;
    }
    TRY(job_make_group(job, order, JOB_GROUP_CONTROL + replica, members, leaders + size, &ranks->control));
    name_job_end(mesh, job, leaders > 0 ? "leader and ranks" : "all ranks", replica, ranks->control);
    comm_set_idle_deadline(ranks->control, COMM_NO_DEADLINE_SECONDS);
    return STATUS_OK;
}

/* What the first process needs to lead all replicas. */
static enum status lead_replicas(const struct mesh_shape *mesh, struct sluice_job *job,
                                 const struct job_order *order, const struct job_ends *ends) {
    struct comm *leaders[TEAM_RANKS_MAX];
    TRY(comm_threads_create(mesh->data, leaders));
    ends->ranks->leaders = leaders[0];
    for (int replica = 1; replica < mesh->data; replica++) {
        ends->others[replica - 1]->leaders = leaders[replica];
    }
    for (int replica = 0; replica < mesh->data; replica++) {
        comm_set_name(leaders[replica], "leaders of all replicas");
    }
    for (int replica = 1; replica < mesh->data; replica++) {
        TRY(make_job_control(mesh, job, order, replica, ends->others[replica - 1]));
    }
    return STATUS_OK;
}

static enum status make_everyone(const struct mesh_shape *mesh, struct sluice_job *job,
                                 const struct job_order *order, struct comm **out) {
    int all[TEAM_RANKS_MAX];
    for (int i = 0; i < job->size; i++) {
        all[i] = i;
    }
    TRY(job_make_group(job, order, JOB_GROUP_EVERYONE, all, job->size, out));
    name_job_end(mesh, job, "all processes", replica_of(mesh, job), *out);
    return STATUS_OK;
}

enum status rank_team_make_job_groups(const struct mesh_shape *mesh, struct sluice_job *job,
                                      const struct job_order *order, const struct job_ends *ends) {
    struct executor_ranks *ranks = ends->ranks;
    TRY(make_everyone(mesh, job, order, ends->everyone));
    TRY(make_job_control(mesh, job, order, replica_of(mesh, job), ranks));
    TRY(make_job_group(mesh, job, order, MESH_GROUP_TENSOR, JOB_GROUP_TENSOR, &ranks->step.tensor));
    ranks->step.experts = ranks->step.tensor;
    if (mesh->pipeline > 1) {
        TRY(make_job_group(mesh, job, order, MESH_GROUP_PIPELINE, JOB_GROUP_PIPELINE, &ranks->pipeline));
    }
    if (mesh->data > 1) {
        TRY(make_job_group(mesh, job, order, MESH_GROUP_EXPERT, JOB_GROUP_EXPERT, &ranks->step.experts));
    }
    return mesh->data > 1 && job->rank == 0 ? lead_replicas(mesh, job, order, ends) : STATUS_OK;
}
