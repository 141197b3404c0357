/* Rings or direct exchanges: both send the same bytes per rank. */
#include "tools/plan_traffic.h"

#include "parallel/sharing_choice.h"

/* Routed experts on whole ranks: rows go to the ranks that hold their experts and return (S-27). */
static void add_exchange(const struct plan_traffic_input *input, double gather, struct plan_traffic *out) {
    double ranks = mesh_group_size(&input->mesh, MESH_GROUP_EXPERT);
    double own_rows = input->rows / input->mesh.tensor;
    double remote = sharing_remote_ranks(ranks, input->expert_picks);
    bool is_everywhere = !input->has_sequence_parallelism && input->mesh.data == 1;
    double results = input->is_strict ? input->expert_picks * (ranks - 1.0) / ranks : remote;
    out->dispatch_bytes =
        is_everywhere ? 0.0 : own_rows * remote * input->hidden_size * input->dispatch_bytes;
    out->combine_bytes = own_rows * results * input->hidden_size * input->combine_bytes;
    out->combine_bytes += input->has_sequence_parallelism ? 0.0 : gather;
}

/* Experts cut inside: every result is a partial sum of its own (G-3). */
static void add_inner_sums(const struct plan_traffic_input *input, double gather, double scatter,
                           struct plan_traffic *out) {
    double results = input->is_strict ? input->expert_picks : 1.0;
    out->dispatch_bytes = input->has_sequence_parallelism ? gather : 0.0;
    out->combine_bytes = results * scatter + (input->has_sequence_parallelism ? 0.0 : gather);
}

struct plan_traffic plan_traffic_make(const struct plan_traffic_input *input) {
    struct plan_traffic out = {0};
    double share = (input->mesh.tensor - 1.0) / input->mesh.tensor;
    double gather = share * input->rows * input->hidden_size * input->activation_bytes;
    double scatter = share * input->rows * input->hidden_size * input->partial_bytes;
    out.attention_bytes = gather + scatter;
    if (input->expert_picks > 0.0) {
        out.shared_bytes = scatter + (input->has_sequence_parallelism ? gather : 0.0);
        if (input->mesh.has_expert_parallelism) {
            add_exchange(input, gather, &out);
        } else {
            add_inner_sums(input, gather, scatter, &out);
        }
    }
    if (input->mesh.pipeline > 1) {
        out.boundary_bytes = input->rows * input->boundary_row_bytes / input->mesh.tensor;
        out.gather_bytes =
            input->has_sequence_parallelism ? 0.0 : share * input->rows * input->boundary_row_bytes;
    }
    if (input->mesh.tensor > 1) { /* columns of all ranks meet on one (G-17) */
        out.logit_bytes = input->logit_rows * input->vocabulary_size * sizeof(float) / input->mesh.tensor;
    }
    return out;
}

struct plan_traffic_input plan_traffic_input_of(const struct plan *plan, double rows, double logit_rows) {
    const struct model *model = plan->model->model;
    enum dtype activation = numerics_activation_dtype(plan->request.numerics);
    struct boundary boundary;
    struct plan_traffic_input input = {
        .mesh = plan->request.mesh,
        .has_sequence_parallelism = plan->request.has_sequence_parallelism,
        .is_strict = true,
        .rows = rows,
        .logit_rows = logit_rows,
        .hidden_size = (double)model->hidden_size,
        .vocabulary_size = (double)model->vocabulary_size,
        .expert_picks = (double)model->expert_picks,
        .activation_bytes = (double)dtype_bytes(activation),
        .partial_bytes = sizeof(float),
        .combine_bytes = sizeof(float),
    };
    /* Rows travel quantised where the experts would quantise them (E-5). */
    input.dispatch_bytes = plan->request.numerics == NUMERICS_NATIVE ? 1.0 : input.activation_bytes;
    model->family->describe_boundary(model, activation, 1, &boundary);
    for (int i = 0; i < boundary.count; i++) {
        input.boundary_row_bytes += (double)tensor_bytes(&boundary.tensors[i]);
    }
    return input;
}
