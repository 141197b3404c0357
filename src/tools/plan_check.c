/* In the order of the table, so that the first sentence is the most basic one. */
#include "tools/plan_check.h"

#include <stdio.h>
#include <string.h>

#include "parallel/shard.h"
#include "tensor/leaves.h"

enum { FP8_BLOCK = 128, PAGE_UNIT = 128, MIDDLE_BUFFERS_LEAST = 3 };

/* Whether a stage can be cut into so many ranks: whole heads and whole output groups for each. */
static bool is_tensor_size(const struct plan_model *model, int tensor) {
    bool is_power = (tensor & (tensor - 1)) == 0;
    bool has_groups = model->group_count == 0 || model->group_count % tensor == 0;
    return is_power && tensor <= LEAF_COUNT_MAX && model->head_count % tensor == 0 && has_groups;
}

static void append_tensor_sizes(const struct plan_model *model, struct string_buffer *out) {
    for (int tensor = 1; tensor <= LEAF_COUNT_MAX; tensor *= 2) {
        if (is_tensor_size(model, tensor)) {
            string_buffer_append_format(out, "%s%d", out->length == 0 ? "" : ", ", tensor);
        }
    }
}

static enum status check_ranks(const struct plan_machine *machine, const struct mesh_shape *mesh) {
    CHECK(mesh->context == 1, STATUS_UNSUPPORTED,
          "context parallelism of %d was asked for, which is not supported yet: leave it at 1",
          mesh->context);
    int64_t asked = (int64_t)mesh->data * mesh->pipeline * mesh->context * mesh->tensor;
    CHECK(asked == plan_machine_rank_count(machine), STATUS_USAGE,
          "%d data x %d pipeline x %d context x %d tensor parallel ranks are %lld, but the machine has %d "
          "devices: change -dp, -pp or -tp, or the machine",
          mesh->data, mesh->pipeline, mesh->context, mesh->tensor, (long long)asked,
          plan_machine_rank_count(machine));
    return STATUS_OK;
}

static enum status check_tensor_size(const struct plan_model *model, int tensor) {
    struct string_buffer sizes = {0};
    char valid[64];
    append_tensor_sizes(model, &sizes);
    snprintf(valid, sizeof valid, "%s", string_buffer_text(&sizes));
    string_buffer_deinit(&sizes);
    CHECK(model->head_count % tensor == 0, STATUS_UNSUPPORTED,
          "%lld attention heads cannot be shared by %d tensor parallel ranks: -tp can be %s",
          (long long)model->head_count, tensor, valid);
    CHECK(model->group_count == 0 || model->group_count % tensor == 0, STATUS_UNSUPPORTED,
          "%d tensor parallel ranks cannot share %lld output groups (o_groups), whose sums are quantised "
          "whole: "
          "-tp can be %s",
          tensor, (long long)model->group_count, valid);
    CHECK(is_tensor_size(model, tensor), STATUS_UNSUPPORTED,
          "the cpu backend's sums are the same on any number of ranks that is a power of two up to %d, so "
          "tensor "
          "parallelism of %d is not supported: the nearest supported -tp are of %s",
          LEAF_COUNT_MAX, tensor, valid);
    return STATUS_OK;
}

/* FP8 matrices are cut at blocks of their scales (CFG-07); units such as heads may be no whole blocks. */
static enum status check_blocks(const struct plan_model *model, const struct mesh_shape *mesh) {
    for (int b = 0; b < model->block_count; b++) {
        for (size_t i = 0; i < model->blocks[b].count; i++) {
            const struct tensor_spec *spec = &model->specs[model->blocks[b].first + i];
            bool is_cut =
                spec->placement == PLACEMENT_SPLIT_ROWS || spec->placement == PLACEMENT_SPLIT_COLUMNS;
            int axis = spec->placement == PLACEMENT_SPLIT_COLUMNS;
            for (int t = 1; spec->role == TENSOR_FP8_MATRIX && is_cut && t < mesh->tensor; t++) {
                struct shard_range range =
                    shard_cut(spec->shape[axis], spec->placement_unit, t, mesh->tensor);
                CHECK(range.first % FP8_BLOCK == 0, STATUS_UNSUPPORTED,
                      "%s has %lld blocks of %d %s, and %d tensor parallel ranks would cut it inside of one, "
                      "at "
                      "%lld: lower -tp",
                      spec->name, (long long)((spec->shape[axis] + FP8_BLOCK - 1) / FP8_BLOCK), FP8_BLOCK,
                      axis == 0 ? "rows" : "columns", mesh->tensor, (long long)range.first);
            }
        }
    }
    return STATUS_OK;
}

static enum status check_pipeline(const struct plan_model *model, const struct plan_request *request) {
    int stages = request->mesh.pipeline;
    int layers = model->model->layer_count;
    CHECK(stages <= layers + 1, STATUS_UNSUPPORTED,
          "%d pipeline stages were asked for, but the model has %d layers: -pp can be at most %d, the last "
          "stage "
          "with the head alone",
          stages, layers, layers + 1);
    CHECK(
        stages < 3 || request->boundary_buffers >= MIDDLE_BUFFERS_LEAST, STATUS_USAGE,
        "%d boundary buffers with %d groups in flight over %d stages: a middle stage receives, computes and "
        "sends at once, so --pp-buffers must be at least %d",
        request->boundary_buffers, request->groups_in_flight, stages, MIDDLE_BUFFERS_LEAST);
    return STATUS_OK;
}

enum status plan_check_request(const struct plan_model *model, const struct plan_machine *machine,
                               const struct plan_request *request) {
    const struct mesh_shape *mesh = &request->mesh;
    TRY(check_ranks(machine, mesh));
    TRY(check_tensor_size(model, mesh->tensor));
    TRY(check_pipeline(model, request));
    TRY(check_blocks(model, mesh));
    int ranks = mesh_group_size(mesh, MESH_GROUP_EXPERT);
    CHECK(
        !mesh->has_expert_parallelism || ranks <= model->model->expert_count, STATUS_UNSUPPORTED,
        "the experts of a layer would be dealt out over %d ranks, but there are %lld of them and 0 redundant "
        "ones: lower -dp or -tp, or raise -pp",
        ranks, (long long)model->model->expert_count);
    CHECK(request->page_tokens > 0 && request->page_tokens % PAGE_UNIT == 0, STATUS_USAGE,
          "--block-size is %lld, but a page of state must hold a multiple of %d tokens",
          (long long)request->page_tokens, PAGE_UNIT);
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
        CHECK(tensor == NULL || spec->role != TENSOR_EXPERT_TABLE || tensor->shape[0] == spec->shape[0],
              STATUS_BAD_CHECKPOINT,
              "%s has %lld rows, but the vocabulary has %lld entries: config.json and files do not belong "
              "together",
              spec->name, tensor == NULL ? 0LL : (long long)tensor->shape[0], (long long)spec->shape[0]);
    }
    CHECK(missing_count == 0, STATUS_BAD_CHECKPOINT,
          "drafting is on (num_speculative_tokens %d), but the checkpoint lacks %zu draft tensors, the first "
          "is "
          "%s: plan without --speculative-config",
          model->model->draft_limit, missing_count, missing);
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

void plan_append_warnings(const struct plan *plan, struct string_buffer *out) {
    const struct plan_request *request = &plan->request;
    const struct mesh_shape *mesh = &request->mesh;
    int idle = idle_shared_ranks(plan);
    if (request->groups_in_flight > 0 && request->groups_in_flight < mesh->pipeline) {
        string_buffer_append_format(out,
                                    "%d groups in flight cannot fill %d stages (%d boundary buffers): leave "
                                    "--pp-inflight at %d\n",
                                    request->groups_in_flight, mesh->pipeline, request->boundary_buffers,
                                    mesh->pipeline);
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
    if (mesh->tensor > 1 && plan->token_capacity > 0) {
        string_buffer_append_format(
            out,
            "all %d tensor parallel ranks hold the same key-value state: -dp %d -tp 1 --ep "
            "would hold %d times as many tokens, if the weights fit\n",
            mesh->tensor, mesh->data * mesh->tensor, mesh->tensor);
    }
    for (int s = 1; s < mesh->pipeline; s++) {
        if (plan->first_layers[s] < plan->model->hash_layer_count) {
            string_buffer_append_format(out,
                                        "stage %d begins inside the %lld layers that route by token id\n", s,
                                        (long long)plan->model->hash_layer_count);
        }
    }
}
