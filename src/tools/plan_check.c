/* In the order of the table, so that the first sentence is the most basic one. */
#include "tools/plan_check.h"

#include <string.h>

#include "parallel/layout_check.h"
#include "parallel/shard.h"
#include "tensor/leaves.h"
#include "tools/plan_memory.h"
#include "tools/plan_sharing.h"
#include "weights/tensor_part.h"

/* Of the layers' tensors, of which one expert stands for all, the list that tensor parts are checked by. */
static enum status check_parts(const struct plan_model *model, const struct plan_request *request) {
    size_t count = 0;
    for (int b = 0; b < model->block_count; b++) {
        size_t end = model->blocks[b].first + model->blocks[b].count;
        count = end > count ? end : count;
    }
    const struct tensor_spec_list list = {.specs = model->specs, .count = count};
    const struct shard_layout layout = {.mesh = request->mesh,
                                        .expert_count = (int)model->model->expert_count,
                                        .expert_copies = plan_expert_copies(request)};
    return tensor_parts_check(&list, &layout);
}

enum status plan_check_request(const struct plan_model *model, const struct plan_machine *machine,
                               const struct plan_request *request) {
    const struct mesh_shape *mesh = &request->mesh;
    TRY(layout_check_reserved(mesh));
    TRY(layout_check_rank_count(mesh, plan_machine_rank_count(machine), "devices"));
    bool divides = model->head_count % mesh->tensor == 0 &&
                   (model->group_count == 0 || model->group_count % mesh->tensor == 0);
    if (divides) {
        TRY(layout_check_sums("cpu", mesh->tensor, LEAF_COUNT_MAX));
    }
    TRY(layout_check_stages(mesh->pipeline, model->model->layer_count));
    TRY(layout_check_buffers(mesh->pipeline, request->groups_in_flight, request->boundary_buffers));
    TRY(check_parts(model, request));
    TRY(layout_check_page_tokens(request->page_tokens));
    CHECK(request->context_tokens <= model->model->position_limit, STATUS_USAGE,
          "--max-model-len is %lld, but the model allows at most %lld (max_position_embeddings)",
          (long long)request->context_tokens, (long long)model->model->position_limit);
    CHECK(request->sequence_limit <= request->step_tokens, STATUS_USAGE,
          "a step of at most %d tokens is too small for %d sequences that run at once: raise "
          "--max-num-batched-tokens or lower --max-num-seqs",
          request->step_tokens, request->sequence_limit);
    return STATUS_OK;
}

enum status plan_check_files(const struct plan_model *model, const struct checkpoint *checkpoint) {
    size_t missing_count = 0;
    const char *missing = NULL;
    for (size_t i = 0; i < model->list.count; i++) {
        const struct tensor_spec *spec = &model->list.specs[i];
        const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, spec->name);
        if (tensor == NULL && spec->is_used && spec->stage == STAGE_DRAFT) {
            missing = missing_count++ == 0 ? spec->name : missing;
        }
        if (tensor != NULL && spec->role == TENSOR_EXPERT_TABLE) {
            TRY(layout_check_expert_table(spec->name, tensor->shape[0], spec->shape[0]));
        }
    }
    TRY(layout_check_draft_tensors(model->model->draft_limit, (int64_t)missing_count, missing));
    return STATUS_OK;
}

/* Ranks whose part of a shared expert is empty (G-9). */
static int idle_shared_ranks(const struct plan *plan) {
    const struct plan_model *model = plan->model;
    int idle = 0;
    for (size_t i = 0; i < model->blocks[0].count; i++) {
        const struct tensor_spec *spec = &model->specs[model->blocks[0].first + i];
        if (spec->placement != PLACEMENT_SPLIT_COLUMNS || strstr(spec->name, "shared_experts") == NULL ||
            spec->role == TENSOR_BLOCK_SCALE) {
            continue;
        }
        for (int t = 0; t < plan->request.mesh.tensor; t++) {
            idle += shard_cut(spec->shape[1], spec->placement_unit, t, plan->request.mesh.tensor).count == 0;
        }
    }
    return idle;
}

/* Each rank of a tensor group has all key-value state: replicas may hold more of it than they lack (G-5). */
static void append_replica_advice(const struct plan *plan, struct string_buffer *out) {
    const struct mesh_shape *mesh = &plan->request.mesh;
    int64_t tokens = plan->token_capacity * mesh->data;
    int64_t as_replicas = 0;
    bool is_possible = mesh->tensor > 1 && mesh->data * mesh->tensor <= plan->model->model->expert_count;
    if (is_possible && plan_tokens_as_replicas(plan, &as_replicas) != STATUS_OK) {
        out->is_failed = true;
    } else if (as_replicas > tokens) {
        string_buffer_append_format(
            out,
            "all %d tensor parallel ranks hold the same key-value state: -dp %d -tp 1 --ep would hold %lld "
            "tokens in all instead of %lld\n",
            mesh->tensor, mesh->data * mesh->tensor, (long long)as_replicas, (long long)tokens);
    }
}

void plan_append_warnings(const struct plan *plan, struct string_buffer *out) {
    const struct plan_request *request = &plan->request;
    const struct mesh_shape *mesh = &request->mesh;
    int idle = idle_shared_ranks(plan);
    if (layout_append_few_groups(mesh->pipeline, request->groups_in_flight, request->boundary_buffers, out)) {
        string_buffer_append_text(out, "\n");
    }
    if (plan->speed.running_sequences < mesh->pipeline) {
        string_buffer_append_format(
            out,
            "%lld sequences cannot fill %d stages: a token takes the sum of all stages' "
            "times\n",
            (long long)plan->speed.running_sequences, mesh->pipeline);
    }
    if (idle > 0) {
        string_buffer_append_format(out, "%d of %d tensor parallel ranks have no part of the shared expert\n",
                                    idle, mesh->tensor);
    }
    append_replica_advice(plan, out);
    for (int s = 1; s < mesh->pipeline; s++) {
        if (plan->first_layers[s] < plan->model->hash_layer_count) {
            string_buffer_append_format(out,
                                        "stage %d begins inside the %lld layers that route by token id\n", s,
                                        (long long)plan->model->hash_layer_count);
        }
    }
}
