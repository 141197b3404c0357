/* In one process there is one host, and nobody to tell. */
#include "engine/rank_team_cut.h"

#include <math.h>

#include "engine/stage_cut.h"
#include "engine/stage_probe.h"
#include "parallel/layout_check.h"

/* What a stage can have in each replica. */
static double stage_limit(const struct mesh_shape *mesh, const struct host_memory *hosts, int stage) {
    int size = mesh_rank_count(mesh);
    double least = INFINITY;
    for (int replica = 0; replica < mesh->data && mesh->pipeline > 1; replica++) {
        int first = replica * (size / mesh->data) + stage * mesh->tensor;
        double limit = rank_memory_stage_limit(hosts, size, first, mesh->tensor);
        least = limit < least ? limit : least;
    }
    return least;
}

enum status rank_team_share_limits(struct rank_team_cut *cut) {
    struct host_memory hosts[JOB_RANKS_MAX] = {{0}};
    size_t offsets[JOB_RANKS_MAX + 1];
    struct host_memory own = {.available_bytes = engine_core_available_bytes()};
    for (int i = 0; i <= mesh_rank_count(cut->team.mesh); i++) {
        offsets[i] = (size_t)i * sizeof own;
    }
    if (cut->team.job != NULL) { /* else all ranks are on one host, and nothing is limited */
        own.host = cut->team.job->host_numbers[cut->team.job->rank];
        TRY(comm_gather(cut->team.everyone, NULL, &own, offsets, hosts));
    }
    for (int s = 0; s < cut->team.mesh->pipeline; s++) {
        cut->byte_limits[s] = stage_limit(cut->team.mesh, hosts, s);
    }
    return STATUS_OK;
}

enum status rank_team_choose_cut(struct rank_team_cut *cut, const struct engine_core *sizes) {
    TRY(layout_check_stages(cut->team.mesh->pipeline, sizes->model->layer_count));
    const struct stage_memory memory = {
        .states = &sizes->state_table, .pool = sizes->states.options, .byte_limits = cut->byte_limits};
    struct stage_probe probe = {&sizes->options, sizes->model, cut->team.threads_per_rank};
    const struct stage_meter meter = {.measure = stage_probe_measure, .context = &probe};
    if (cut->team.job != NULL && cut->team.job->rank > 0) {
        return STATUS_OK;
    }
    return stage_cut_choose(sizes->model, &sizes->options, &memory,
                            engine_core_has_disk(&sizes->options) ? NULL : &meter, cut->first_layers,
                            &cut->imbalance);
}

enum status rank_team_share_cut(struct rank_team_cut *cut) {
    size_t bytes = ((size_t)cut->team.mesh->pipeline + 1) * sizeof *cut->first_layers;
    return cut->team.job == NULL ? STATUS_OK
                                 : comm_broadcast_host(cut->team.everyone, 0, cut->first_layers, bytes);
}
