/* Names of groups say where a rank is: they are in every sentence about a peer that is lost. */
#include "engine/rank_team_groups.h"

#include <stdio.h>

#include "comm/comm_joint.h"
#include "comm/comm_threads.h"

/* Beside the groups of a mesh. */
enum { GROUP_ALL = MESH_GROUP_EXPERT + 1, GROUP_LED };

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
                                        [GROUP_ALL] = "all ranks",
                                        [GROUP_LED] = "leader and ranks"};
    struct mesh_place place = mesh_place_of(mesh, rank);
    char name[128];
    if (mesh->data > 1) {
        snprintf(name, sizeof name, "%s, replica %d, stage %d", names[kind], place.data, place.pipeline);
        comm_set_name(end, name);
    }
}

bool rank_team_is_led_from_outside(const struct mesh_shape *mesh, bool is_job, int replica) {
    return mesh->data > 1 && (mesh->pipeline > 1 || (is_job && replica > 0));
}

static void name_leader(int replica, struct comm *end) {
    char name[64];
    snprintf(name, sizeof name, "leader of replica %d", replica);
    comm_set_name(end, name);
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

/* All ranks of a replica, behind `leader` if that is none of them; NULL: the first one leads. */
static enum status make_control_group(const struct mesh_shape *mesh, int replica,
                                      struct executor_ranks **ranks, struct executor_ranks *leader) {
    struct comm *ends[TEAM_RANKS_MAX + 1];
    int size = mesh_rank_count(mesh) / mesh->data;
    int leaders = leader != NULL;
    TRY(comm_threads_create(leaders + size, ends));
    if (leader != NULL) {
        leader->control = ends[0];
        name_leader(replica, ends[0]);
    }
    for (int i = 0; i < size; i++) {
        ranks[replica * size + i]->control = ends[leaders + i];
        name_end(mesh, leaders > 0 ? GROUP_LED : GROUP_ALL, replica * size + i, ends[leaders + i]);
        comm_set_idle_deadline(ends[leaders + i], COMM_NO_DEADLINE_SECONDS);
    }
    return STATUS_OK;
}

/* Leaders of all replicas: that of the first one may be a rank. */
static enum status join_leaders(const struct mesh_shape *mesh, struct executor_ranks *first,
                                const struct outside_ends *outside) {
    struct comm *ends[TEAM_RANKS_MAX];
    int inside = mesh->data - outside->count;
    TRY(comm_threads_create(mesh->data, ends));
    for (int replica = 0; replica < mesh->data; replica++) {
        struct executor_ranks *leader = replica < inside ? first : outside->leaders[replica - inside];
        leader->leaders = ends[replica];
        comm_set_name(ends[replica], "leaders of all replicas");
    }
    return STATUS_OK;
}

/* What replicas that share experts need besides. */
static enum status join_replicas(const struct mesh_shape *mesh, int rank, struct executor_ranks **ranks,
                                 bool has_outside) {
    struct mesh_place place = mesh_place_of(mesh, rank);
    if (place.pipeline == 0 && place.tensor == 0 && !has_outside) {
        TRY(make_thread_group(mesh, MESH_GROUP_DATA, rank, ranks));
    }
    return make_thread_group(mesh, MESH_GROUP_EXPERT, rank, ranks);
}

enum status rank_team_make_thread_groups(const struct mesh_shape *mesh, struct executor_ranks **ranks,
                                         const struct outside_ends *outside) {
    for (int replica = 0; replica < mesh->data; replica++) {
        TRY(make_control_group(mesh, replica, ranks, outside->count > 0 ? outside->leaders[replica] : NULL));
    }
    if (outside->count > 0) {
        TRY(join_leaders(mesh, ranks[0], outside));
    }
    for (int rank = 0; rank < mesh_rank_count(mesh); rank++) {
        TRY(make_thread_group(mesh, MESH_GROUP_TENSOR, rank, ranks));
        if (mesh->pipeline > 1) {
            TRY(make_thread_group(mesh, MESH_GROUP_PIPELINE, rank, ranks));
        }
        if (mesh->data > 1) {
            TRY(join_replicas(mesh, rank, ranks, outside->count > 0));
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
    JOB_GROUP_RANKS, /* of the first replica without its leader, where that is none of them */
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

/* The ranks of a replica, behind the first process if that leads them and is not one of them. */
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

/* Of the group of the first replica's leader and ranks: the end that is rank `own` there, of two groups. */
static enum status join_ends(const struct mesh_shape *mesh, const struct sluice_job *job, int own,
                             struct comm *const *parts, struct comm *also_aborted, struct comm **out) {
    struct comm_route routes[TEAM_RANKS_MAX + 1] = {{0, 0}};
    int size = 1 + mesh_rank_count(mesh) / mesh->data;
    int near = own < 2 ? 2 : 1; /* ranks that are met in the first part, by the same number */
    for (int peer = 0; peer < size; peer++) {
        routes[peer] = peer < near ? (struct comm_route){0, peer} : (struct comm_route){1, peer - 1};
    }
    const struct comm_joint_options options = {.rank = own,
                                               .size = size,
                                               .routes = routes,
                                               .parts = {parts[0], parts[1]},
                                               .also_aborted = also_aborted};
    TRY(comm_joint_create(&options, out));
    name_job_end(mesh, job, own == 0 ? "leader" : "leader and ranks", 0, *out);
    comm_set_idle_deadline(*out, COMM_NO_DEADLINE_SECONDS);
    return STATUS_OK;
}

/* The two ends in the first process; both groups are taken over. */
static enum status join_first_process(const struct mesh_shape *mesh, const struct sluice_job *job,
                                      struct comm *led, struct comm *among, struct executor_ranks *ranks,
                                      struct executor_ranks *leader) {
    struct comm *near[2] = {NULL};
    enum status status = comm_threads_create(2, near);
    if (status == STATUS_OK) {
        status = join_ends(mesh, job, 1, (struct comm *[]){near[1], among}, led, &ranks->control);
        among = status == STATUS_OK ? among : NULL;
    }
    if (status == STATUS_OK) {
        return join_ends(mesh, job, 0, (struct comm *[]){near[0], led}, among, &leader->control);
    }
    comm_destroy(&near[0]);
    comm_destroy(&led);
    comm_destroy(&among);
    return error_forward(status, ERROR_HERE);
}

/*
 * The first replica's leader and its ranks, of which the first is in the leader's process: these two meet as
 * threads, and each of them meets the other processes in a group of its own. `leader`: NULL elsewhere.
 */
static enum status make_joint_control(const struct mesh_shape *mesh, struct sluice_job *job,
                                      const struct job_order *order, struct executor_ranks *ranks,
                                      struct executor_ranks *leader) {
    int members[TEAM_RANKS_MAX];
    struct comm *led;
    struct comm *among;
    int size = mesh_rank_count(mesh) / mesh->data;
    for (int i = 0; i < size; i++) {
        members[i] = i;
    }
    TRY(job_make_group(job, order, JOB_GROUP_CONTROL, members, size, &led));
    enum status status = job_make_group(job, order, JOB_GROUP_RANKS, members, size, &among);
    if (status != STATUS_OK) {
        comm_destroy(&led);
        return error_forward(status, ERROR_HERE);
    }
    return leader == NULL
               ? join_ends(mesh, job, 1 + job->rank, (struct comm *[]){led, among}, NULL, &ranks->control)
               : join_first_process(mesh, job, led, among, ranks, leader);
}

/* What the first process needs to lead replicas that it is no rank of. */
static enum status lead_replicas(const struct mesh_shape *mesh, struct sluice_job *job,
                                 const struct job_order *order, const struct outside_ends *outside) {
    int inside = mesh->data - outside->count;
    for (int replica = 1; replica < mesh->data; replica++) {
        TRY(make_job_control(mesh, job, order, replica, outside->leaders[replica - inside]));
    }
    return STATUS_OK;
}

/* Who leads this process, and whom it leads. */
static enum status make_job_controls(const struct mesh_shape *mesh, struct sluice_job *job,
                                     const struct job_order *order, const struct job_ends *ends) {
    int replica = replica_of(mesh, job);
    bool is_first = job->rank == 0;
    if (replica == 0 && rank_team_is_led_from_outside(mesh, true, 0)) {
        TRY(make_joint_control(mesh, job, order, ends->ranks, is_first ? ends->outside.leaders[0] : NULL));
    } else {
        TRY(make_job_control(mesh, job, order, replica, ends->ranks));
    }
    if (is_first && mesh->data > 1) {
        TRY(join_leaders(mesh, ends->ranks, &ends->outside));
        TRY(lead_replicas(mesh, job, order, &ends->outside));
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
    TRY(make_job_controls(mesh, job, order, ends));
    TRY(make_job_group(mesh, job, order, MESH_GROUP_TENSOR, JOB_GROUP_TENSOR, &ranks->step.tensor));
    ranks->step.experts = ranks->step.tensor;
    if (mesh->pipeline > 1) {
        TRY(make_job_group(mesh, job, order, MESH_GROUP_PIPELINE, JOB_GROUP_PIPELINE, &ranks->pipeline));
    }
    if (mesh->data > 1) {
        TRY(make_job_group(mesh, job, order, MESH_GROUP_EXPERT, JOB_GROUP_EXPERT, &ranks->step.experts));
    }
    return STATUS_OK;
}
