/* Bytes as whole numbers, seconds and rates as reals. */
#include "tools/plan_json.h"

#include <string.h>

#include "lib/json.h"
#include "tools/plan_sharing.h"

/* Building JSON: every setter fails alike if memory is out, so failures are collected in one flag. */
struct builder {
    bool is_failed;
};

static void set(struct builder *builder, struct json *object, const char *key, struct json *value) {
    builder->is_failed = !json_set(object, key, value) || builder->is_failed;
}

static void set_count(struct builder *builder, struct json *object, const char *key, int64_t value) {
    set(builder, object, key, json_new_integer(value));
}

static void set_real(struct builder *builder, struct json *object, const char *key, double value) {
    set(builder, object, key, json_new_real(value));
}

static void set_text(struct builder *builder, struct json *object, const char *key, const char *text) {
    set(builder, object, key, json_new_string(text, strlen(text)));
}

/* The new value belongs to its parent, which is filled further through the pointer. */
static struct json *set_child(struct builder *builder, struct json *object, const char *key,
                              struct json *value) {
    set(builder, object, key, value);
    return value;
}

static struct json *append_object(struct builder *builder, struct json *array) {
    struct json *object = json_new_object();
    builder->is_failed = !json_append(array, object) || builder->is_failed;
    return object;
}

static void build_machine(struct builder *builder, const struct plan_machine *machine, struct json *root) {
    struct json *object = set_child(builder, root, "machine", json_new_object());
    set_text(builder, object, "device", machine->device.name);
    set_count(builder, object, "hosts", machine->host_count);
    set_count(builder, object, "devices_per_host", machine->devices_per_host);
    set_real(builder, object, "memory_bytes", machine->device.memory_bytes);
    set_real(builder, object, "memory_share", machine->memory_share);
    set_real(builder, object, "read_bytes_per_second", machine->device.read_bytes_per_second);
    set_real(builder, object, "operations_per_second", machine->device.operations_per_second);
    set_real(builder, object, "link_bytes_per_second", machine->device.link_bytes_per_second);
    set_real(builder, object, "network_bytes_per_second", machine->device.network_bytes_per_second);
}

static void build_request(struct builder *builder, const struct plan_request *request, struct json *root) {
    struct json *object = set_child(builder, root, "request", json_new_object());
    set_count(builder, object, "max_num_seqs", request->sequence_limit);
    set_count(builder, object, "max_model_len", request->context_tokens);
    set_count(builder, object, "max_num_batched_tokens", request->step_tokens);
    set_count(builder, object, "num_speculative_tokens", request->draft_limit);
    set_text(builder, object, "numerics", numerics_name(request->numerics));
}

static void build_seconds(struct builder *builder, struct json *object, const char *key,
                          const struct plan_seconds *seconds) {
    struct json *parts = set_child(builder, object, key, json_new_object());
    set_real(builder, parts, "total", seconds->total);
    set_real(builder, parts, "read", seconds->read);
    set_real(builder, parts, "compute", seconds->compute);
    set_real(builder, parts, "link", seconds->link);
}

/* "shared_experts" of "shared experts". */
static void set_weights(struct builder *builder, struct json *object, enum plan_weights kind,
                        uint64_t bytes) {
    char key[32];
    size_t length = 0;
    for (const char *name = plan_weights_name(kind); *name != '\0' && length + 1 < sizeof key; name++) {
        key[length++] = *name == ' ' ? '_' : *name;
    }
    key[length] = '\0';
    set_count(builder, object, key, (int64_t)bytes);
}

static void build_stage(struct builder *builder, const struct plan_stage *stage, struct json *object) {
    set_count(builder, object, "first_layer", stage->first_layer);
    set_count(builder, object, "layers", stage->end_layer - stage->first_layer);
    struct json *weights = set_child(builder, object, "weight_bytes", json_new_object());
    for (int kind = 0; kind < PLAN_WEIGHTS_COUNT; kind++) {
        set_weights(builder, weights, (enum plan_weights)kind, stage->weight_bytes[kind]);
    }
    set_count(builder, object, "weights_total_bytes", (int64_t)plan_stage_weight_bytes(stage));
    set_count(builder, object, "slot_bytes", (int64_t)stage->slot_bytes);
    set_count(builder, object, "snapshot_bytes", (int64_t)stage->snapshot_bytes);
    set_count(builder, object, "page_bytes", (int64_t)stage->page_bytes);
    set_count(builder, object, "state_fixed_bytes", (int64_t)stage->state_fixed_bytes);
    set_count(builder, object, "step_bytes", (int64_t)stage->step_bytes);
    set_count(builder, object, "boundary_bytes", (int64_t)stage->boundary_bytes);
    set_count(builder, object, "draft_bytes", (int64_t)stage->draft_bytes);
    set_count(builder, object, "fixed_bytes", (int64_t)stage->fixed_bytes);
    set_count(builder, object, "pages", stage->page_count);
    build_seconds(builder, object, "decode_seconds", &stage->decode);
    build_seconds(builder, object, "prefill_seconds", &stage->prefill);
}

static void build_traffic(struct builder *builder, struct json *object, const char *key,
                          const struct plan_traffic *traffic) {
    struct json *parts = set_child(builder, object, key, json_new_object());
    set_real(builder, parts, "attention", traffic->attention_bytes);
    set_real(builder, parts, "shared_experts", traffic->shared_bytes);
    set_real(builder, parts, "routes", traffic->route_bytes);
    set_real(builder, parts, "dispatch", traffic->dispatch_bytes);
    set_real(builder, parts, "combine", traffic->combine_bytes);
    set_real(builder, parts, "boundary", traffic->boundary_bytes);
    set_real(builder, parts, "logits", traffic->logit_bytes);
}

static void build_gathers(struct builder *builder, const struct plan *plan, struct json *object) {
    struct json *kinds = set_child(builder, object, "attention_gathers", json_new_array());
    struct plan_gather gather = {0};
    while (plan_next_gather(plan->model->model, &plan->request, &gather)) {
        struct json *kind = append_object(builder, kinds);
        set_count(builder, kind, "first_layer", gather.first_layer);
        set_count(builder, kind, "layers", gather.layer_count);
        set_text(builder, kind, "choice", gather.is_late ? "late" : "early");
        set_count(builder, kind, "early_row_bytes", (int64_t)gather.early_bytes);
        set_count(builder, kind, "late_row_bytes", (int64_t)gather.late_bytes);
        set_count(builder, kind, "chosen_row_bytes", (int64_t)gather.chosen_bytes);
        set_real(builder, kind, "row_operations", gather.operations);
    }
}

static void build_rates(struct builder *builder, const struct sharing_rates *rates, struct json *object) {
    struct json *numbers = set_child(builder, object, "sharing_rates", json_new_object());
    set_real(builder, numbers, "link_bytes_per_second", rates->link_bytes_per_second);
    set_real(builder, numbers, "link_latency_seconds", rates->link_latency_seconds);
    set_real(builder, numbers, "read_bytes_per_second", rates->read_bytes_per_second);
    set_real(builder, numbers, "operations_per_second", rates->operations_per_second);
}

static void build_layout(struct builder *builder, const struct plan *plan, struct json *object) {
    const struct mesh_shape *mesh = &plan->request.mesh;
    set_count(builder, object, "data_parallel", mesh->data);
    set_count(builder, object, "pipeline_parallel", mesh->pipeline);
    set_count(builder, object, "tensor_parallel", mesh->tensor);
    set(builder, object, "expert_parallel", json_new_bool(mesh->has_expert_parallelism));
    set_count(builder, object, "redundant_experts", plan_expert_copies(&plan->request));
    set(builder, object, "sequence_parallel", json_new_bool(plan->request.has_sequence_parallelism));
    set(builder, object, "fits", json_new_bool(plan->fits));
    set_count(builder, object, "kv_tokens_per_replica", plan->token_capacity);
    set_count(builder, object, "kv_tokens", plan->token_capacity * mesh->data);
    set_count(builder, object, "full_sessions",
              plan_sessions(plan, plan->request.context_tokens) * mesh->data);
    set_real(builder, object, "stage_imbalance", plan->imbalance);
    set_real(builder, object, "tokens_per_second", plan->speed.tokens_per_second);
    set_real(builder, object, "prefill_tokens_per_second", plan->speed.prefill_tokens_per_second);
    set_count(builder, object, "running_sequences", plan->speed.running_sequences * mesh->data);
    set_count(builder, object, "bottleneck_stage", plan->speed.bottleneck_stage);
    build_traffic(builder, object, "decode_bytes", &plan->decode_traffic);
    build_traffic(builder, object, "prefill_bytes", &plan->prefill_traffic);
    build_gathers(builder, plan, object);
    build_rates(builder, &plan->request.rates, object);
    set(builder, object, "whole_shared_experts",
        json_new_bool(plan_has_whole_shared_experts(plan->model->model, &plan->request)));
    struct json *stages = set_child(builder, object, "stages", json_new_array());
    for (int s = 0; s < mesh->pipeline; s++) {
        build_stage(builder, &plan->stages[s], append_object(builder, stages));
    }
}

static void build_scale(struct builder *builder, const struct plan_scale *scale, struct json *root) {
    struct json *rows = set_child(builder, root, "scale", scale == NULL ? json_new_null() : json_new_array());
    for (int i = 0; scale != NULL && i < scale->count; i++) {
        const struct plan_scale_row *row = &scale->rows[i];
        struct json *object = append_object(builder, rows);
        set_count(builder, object, "ranks", row->rank_count);
        set_count(builder, object, "max_num_seqs", row->sequence_limit);
        struct json *layout =
            set_child(builder, object, "layout", row->fits ? json_new_object() : json_new_null());
        if (row->fits) {
            build_layout(builder, &row->plan, layout);
        }
    }
}

enum status plan_json_write(const struct plan_outcome *outcome, struct string_buffer *out) {
    enum status status = STATUS_OK;
    struct builder builder = {0};
    struct json *root = json_new_object();
    CHECK_MEMORY_GOTO(root);
    build_machine(&builder, outcome->machine, root);
    build_request(&builder, outcome->request, root);
    struct json *layouts = set_child(&builder, root, "layouts", json_new_array());
    for (int i = 0; i < outcome->plan_count; i++) {
        build_layout(&builder, &outcome->plans[i], append_object(&builder, layouts));
    }
    build_scale(&builder, outcome->scale, root);
    CHECK_GOTO(!builder.is_failed, STATUS_OUT_OF_MEMORY, "out of memory, or a name that is not UTF-8");
    TRY_GOTO(json_write(root, out));
    string_buffer_append_char(out, '\n');
    TRY_GOTO(string_buffer_check(out));
fail:
    json_free(&root);
    return status;
}
