/* The engine's own functions. */
#include "tools/plan_sharing.h"

#include "engine/executor_ranks.h"
#include "parallel/sharing_choice.h"

static struct sluice_parallel_options parallel_of(const struct plan_request *request) {
    return (struct sluice_parallel_options){
        .pipeline = request->mesh.pipeline,
        .tensor = request->mesh.tensor,
        .has_expert_parallelism = request->mesh.has_expert_parallelism,
        .row_sharing = request->has_sequence_parallelism && request->mesh.tensor > 1 ? SLUICE_ROW_SHARING_AUTO
                                                                                     : SLUICE_ROW_SHARING_OFF,
        .shared_rows_min = request->shared_rows_min,
        .row_gather = request->row_gather,
        .expert_exchange = request->expert_exchange,
        .shared_experts = request->shared_experts};
}

static int64_t shared_rows_min(const struct plan_request *request) {
    struct sluice_parallel_options parallel = parallel_of(request);
    return executor_ranks_shared_rows_min(&parallel);
}

bool plan_shares_rows(const struct plan_request *request, double rows) {
    return rows >= (double)shared_rows_min(request);
}

int64_t plan_unshared_rows(const struct plan_request *request) {
    int64_t fewest_shared = shared_rows_min(request);
    return fewest_shared > request->step_tokens ? request->step_tokens : fewest_shared - 1;
}

int64_t plan_boundary_rows(const struct plan_request *request) {
    int64_t rows = request->step_tokens;
    if (!plan_shares_rows(request, (double)rows)) {
        return rows;
    }
    int64_t share = shard_cut_rows(rows, 0, request->mesh.tensor).count;
    int64_t unshared = plan_unshared_rows(request);
    return share > unshared ? share : unshared;
}

bool plan_has_whole_shared_experts(const struct model *model, const struct plan_request *request) {
    struct sluice_parallel_options parallel = parallel_of(request);
    return request->mesh.tensor > 1 &&
           executor_ranks_have_whole_experts(&parallel, model, request->step_tokens, &request->rates);
}

enum expert_exchange plan_expert_exchange(const struct model *model, const struct plan_request *request) {
    struct sluice_parallel_options parallel = parallel_of(request);
    return executor_ranks_exchange(&parallel, model, mesh_group_size(&request->mesh, MESH_GROUP_EXPERT));
}

bool plan_gathers_late(const struct plan_request *request, const struct attention_rows *rows) {
    struct sluice_parallel_options parallel = parallel_of(request);
    return executor_ranks_gathers_late(&parallel, &request->rates, rows);
}

struct sharing_rates plan_sharing_rates(const struct plan_machine *machine, const struct mesh_shape *mesh) {
    bool is_local = true;
    for (int rank = 0; rank < mesh_rank_count(mesh); rank++) {
        int first = rank - rank % mesh->tensor; /* the ranks of a stage lie side by side */
        is_local = is_local && plan_machine_host(machine, rank) == plan_machine_host(machine, first);
    }
    return device_profile_sharing_rates(&machine->device, is_local);
}

bool plan_moves_experts(const struct plan_request *request) {
    return request->has_movable_experts && request->mesh.has_expert_parallelism &&
           mesh_group_size(&request->mesh, MESH_GROUP_EXPERT) > 1;
}

int plan_expert_copies(const struct plan_request *request) {
    return plan_moves_experts(request) ? request->expert_copies : 0;
}

static bool gather_alike(const struct model *model, enum dtype activation, int a, int b) {
    struct attention_rows of_a;
    struct attention_rows of_b;
    model->family->describe_attention_rows(model, activation, a, &of_a);
    model->family->describe_attention_rows(model, activation, b, &of_b);
    return of_a.hidden_bytes == of_b.hidden_bytes && of_a.projected_bytes == of_b.projected_bytes &&
           of_a.chosen_bytes == of_b.chosen_bytes && of_a.operations == of_b.operations;
}

/* The layers from `layer` on that gather as it does; 0 if an earlier one does too. */
static int count_alike(const struct model *model, enum dtype activation, int layer) {
    int count = 0;
    for (int l = 0; l < model->layer_count; l++) {
        if (gather_alike(model, activation, layer, l)) {
            count++;
            if (l < layer) {
                return 0;
            }
        }
    }
    return count;
}

bool plan_next_gather(const struct model *model, const struct plan_request *request,
                      struct plan_gather *out) {
    enum dtype activation = numerics_activation_dtype(request->numerics);
    int layer = out->layer_count == 0 ? 0 : out->first_layer + 1;
    if (!plan_shares_rows(request, request->step_tokens)) {
        return false;
    }
    for (; layer < model->layer_count; layer++) {
        int count = count_alike(model, activation, layer);
        if (count > 0) {
            struct attention_rows rows;
            model->family->describe_attention_rows(model, activation, layer, &rows);
            *out = (struct plan_gather){.first_layer = layer,
                                        .layer_count = count,
                                        .is_late = plan_gathers_late(request, &rows),
                                        .early_bytes = rows.hidden_bytes,
                                        .late_bytes = rows.projected_bytes,
                                        .chosen_bytes = rows.chosen_bytes,
                                        .operations = rows.operations};
            return true;
        }
    }
    return false;
}
