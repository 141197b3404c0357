/* Rings or direct exchanges: both send the same bytes per rank. Routing is taken to be uniform. */
#include "tools/plan_traffic.h"

#include "engine/boundary_header.h"
#include "parallel/expert_inputs.h"
#include "parallel/sharing_choice.h"
#include "tools/plan_sharing.h"

/* What a rank of a tensor group sends, so that all have the rows of a step. */
struct group_bytes {
    double row; /* rows of one byte */
    double gathered;
    double sum; /* rows of partial sums, added up */
};

/* An expert id and its weight. */
static const double pick_bytes = sizeof(int32_t) + sizeof(float);

/* Rows are shared: to the ranks of their experts and back (S-27). All learn all picks. */
static void add_shared_exchange(const struct plan_traffic_input *input, struct plan_traffic *out) {
    double ranks = mesh_group_size(&input->mesh, MESH_GROUP_EXPERT);
    double own_rows = input->rows / input->mesh.tensor;
    double remote = sharing_remote_ranks(ranks, input->expert_picks);
    double sent = input->exchange == EXPERT_EXCHANGE_GATHER ? ranks - 1.0 : remote;
    double results = input->is_strict ? input->expert_picks * (ranks - 1.0) / ranks : remote;
    out->route_bytes = own_rows * (ranks - 1.0) * input->expert_picks * pick_bytes;
    out->dispatch_bytes = own_rows * sent * input->hidden_size * input->dispatch_bytes;
    out->combine_bytes = own_rows * results * input->hidden_size * input->combine_bytes;
}

/* Every rank of a replica has all rows, and wants all results. Replicas send rows of theirs once. */
static void add_unshared_exchange(const struct plan_traffic_input *input, struct plan_traffic *out) {
    double share = (input->mesh.tensor - 1.0) / input->mesh.tensor;
    if (input->mesh.data > 1) {
        add_shared_exchange(input, out);
    }
    out->combine_bytes +=
        share * input->rows * input->expert_picks * input->hidden_size * input->combine_bytes;
}

/* Experts cut inside: every result is a partial sum of its own (G-3). */
static void add_inner_sums(const struct plan_traffic_input *input, const struct group_bytes *group,
                           struct plan_traffic *out) {
    out->combine_bytes = group->sum * (input->is_strict ? input->expert_picks : 1.0);
    if (input->shares_rows) {
        out->dispatch_bytes = group->row * input->hidden_size * input->dispatch_bytes;
        out->route_bytes = group->row * input->expert_picks * pick_bytes;
    }
}

static void add_layer(const struct plan_traffic_input *input, const struct group_bytes *group,
                      struct plan_traffic *out) {
    out->attention_bytes = group->sum + (input->shares_rows ? group->row * input->attention_row_bytes : 0.0);
    if (input->expert_picks == 0.0) {
        return;
    }
    if (!input->has_whole_shared_experts) {
        out->shared_bytes = group->sum + (input->shares_rows ? group->gathered : 0.0);
    }
    if (!input->mesh.has_expert_parallelism) {
        add_inner_sums(input, group, out);
    } else if (input->shares_rows) {
        add_shared_exchange(input, out);
    } else {
        add_unshared_exchange(input, out);
    }
}

struct plan_traffic plan_traffic_make(const struct plan_traffic_input *input) {
    struct plan_traffic out = {0};
    double share = (input->mesh.tensor - 1.0) / input->mesh.tensor;
    struct group_bytes group = {.row = share * input->rows};
    group.gathered = group.row * input->hidden_size * input->activation_bytes;
    /* Where every rank wants the sum, it goes out twice: scattered, and gathered as it is (S-4). */
    group.sum = (input->shares_rows ? 1.0 : 2.0) * group.row * input->hidden_size * input->partial_bytes;
    add_layer(input, &group, &out);
    if (input->mesh.pipeline > 1) {
        out.boundary_bytes = BOUNDARY_HEADER_BYTES + input->rows * input->boundary_row_bytes /
                                                         (input->shares_rows ? input->mesh.tensor : 1);
    }
    /* Columns of all ranks meet on each (G-17); before that the normed rows do, if they are shared. */
    out.logit_bytes = share * input->logit_rows * input->vocabulary_size * sizeof(float);
    if (input->shares_rows) {
        out.logit_bytes += share * input->logit_rows * input->hidden_size * input->activation_bytes;
    }
    return out;
}

/* The mean over all layers. */
static double attention_row_bytes(const struct model *model, const struct plan_request *request) {
    enum dtype activation = numerics_activation_dtype(request->numerics);
    double sum = 0.0;
    for (int layer = 0; layer < model->layer_count; layer++) {
        struct attention_rows rows;
        model->family->describe_attention_rows(model, activation, layer, &rows);
        bool is_late = plan_gathers_late(request, &rows);
        sum += (double)((is_late ? rows.projected_bytes : rows.hidden_bytes) + rows.chosen_bytes);
    }
    return sum / model->layer_count;
}

struct plan_traffic_input plan_traffic_input_of(const struct plan *plan, double rows, double logit_rows) {
    const struct model *model = plan->model->model;
    const struct plan_request *request = &plan->request;
    enum dtype activation = numerics_activation_dtype(request->numerics);
    double element = (double)dtype_bytes(activation);
    struct boundary boundary;
    struct plan_traffic_input input = {
        .mesh = request->mesh,
        .shares_rows = plan_shares_rows(request, rows),
        .has_whole_shared_experts = plan_has_whole_shared_experts(model, request),
        .is_strict = true,
        .exchange = plan_expert_exchange(model, request),
        .rows = rows,
        .logit_rows = logit_rows,
        .hidden_size = (double)model->hidden_size,
        .attention_row_bytes = attention_row_bytes(model, request),
        .vocabulary_size = (double)model->vocabulary_size,
        .expert_picks = (double)model->expert_picks,
        .activation_bytes = element,
        .partial_bytes = sizeof(float),
        .dispatch_bytes =
            (double)expert_input_bytes(request->numerics, model->hidden_size) / (double)model->hidden_size,
        .combine_bytes = element,
    };
    model->family->describe_boundary(model, activation, 1, &boundary);
    for (int i = 0; i < boundary.count; i++) {
        input.boundary_row_bytes += (double)tensor_bytes(&boundary.tensors[i]);
    }
    return input;
}
