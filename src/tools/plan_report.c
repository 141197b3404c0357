/* Sizes in GB of 10^9 bytes, times in milliseconds: one unit per column. */
#include "tools/plan_report.h"

#include <stdio.h>

#include "tools/plan_check.h"
#include "tools/plan_reasons.h"
#include "tools/plan_sharing.h"

#define ADD(...) string_buffer_append_format(out, __VA_ARGS__)

enum { KINDS_SHOWN_PARTS = 2000 }; /* of all: what is less is not worth a place in the line */

static double gigabytes(uint64_t bytes) {
    return (double)bytes / 1e9;
}

/* "3.42 GB", "17.3 MB", "96 KB" */
static void append_size(struct string_buffer *out, double bytes) {
    if (bytes >= 1e9) {
        ADD("%.2f GB", bytes / 1e9);
    } else if (bytes >= 1e6) {
        ADD("%.1f MB", bytes / 1e6);
    } else {
        ADD("%.1f KB", bytes / 1e3);
    }
}

static void append_mesh(const struct plan_request *request, struct string_buffer *out) {
    const struct mesh_shape *mesh = &request->mesh;
    ADD("dp %d, pp %d, tp %d%s%s", mesh->data, mesh->pipeline, mesh->tensor,
        mesh->has_expert_parallelism ? ", ep" : "", request->has_sequence_parallelism ? ", sp" : "");
    if (plan_expert_copies(request) > 0) {
        ADD(", %d copies of experts", plan_expert_copies(request));
    }
}

void plan_report_setting(const struct plan_model *model, const struct plan_machine *machine,
                         const struct plan_request *request, struct string_buffer *out) {
    uint64_t weights = 0;
    for (size_t i = 0; i < model->list.count; i++) {
        const struct tensor_spec *spec = &model->list.specs[i];
        uint64_t bytes = spec->is_used ? dtype_bytes(spec->dtype) : 0;
        for (int axis = 0; axis < spec->rank; axis++) {
            bytes *= (uint64_t)spec->shape[axis];
        }
        weights += bytes;
    }
    ADD("model     %s, ", model->model->family->model_type);
    model->model->family->describe(model->model, out);
    ADD("; %.1f GB of weights\n", gigabytes(weights));
    ADD("machine   %d host%s with %d x %s: %.0f GB each, %.1f usable; reads %.2f TB/s, computes %.0f T/s\n",
        machine->host_count, machine->host_count == 1 ? "" : "s", machine->devices_per_host,
        machine->device.name, machine->device.memory_bytes / 1e9, gigabytes(plan_usable_bytes(machine)),
        machine->device.read_bytes_per_second / 1e12, machine->device.operations_per_second / 1e12);
    ADD("links     %.1f GB/s in a host, %.2f GB/s between hosts, for each device and direction\n",
        machine->device.link_bytes_per_second / 1e9, machine->device.network_bytes_per_second / 1e9);
    ADD("request   %d sequences of up to %lld tokens, steps of %d tokens, %d drafts, %s numerics\n",
        request->sequence_limit, (long long)request->context_tokens, request->step_tokens,
        request->draft_limit, numerics_name(request->numerics));
}

static void append_stages(const struct plan *plan, struct string_buffer *out) {
    uint64_t usable = plan_usable_bytes(&plan->machine);
    ADD("\n  GB of the fullest rank of each stage; ms of one step\n"
        "  %5s %8s %8s %8s %8s %8s %8s %9s %9s\n",
        "stage", "layers", "weights", "state", "step", "buffers", "free", "decode", "prefill");
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        char layers[24];
        snprintf(layers, sizeof layers, "%d-%d", stage->first_layer, stage->end_layer - 1);
        ADD("  %5d %8s %8.2f %8.2f %8.2f %8.2f %8.2f %9.2f %9.2f\n", s,
            stage->first_layer == stage->end_layer ? "none" : layers,
            gigabytes(plan_stage_weight_bytes(stage)), gigabytes(stage->state_fixed_bytes),
            gigabytes(stage->step_bytes), gigabytes(stage->boundary_bytes + stage->draft_bytes),
            ((double)usable - (double)stage->fixed_bytes) / 1e9, stage->decode.total * 1e3,
            stage->prefill.total * 1e3);
    }
    if (plan->request.mesh.pipeline > 1) {
        ADD("  decoding, the slowest stage takes %.2f times the mean\n", plan->imbalance);
    }
}

/* Of the stage with most weights. */
static void append_weights(const struct plan *plan, struct string_buffer *out) {
    const struct plan_stage *most = &plan->stages[0];
    for (int s = 1; s < plan->request.mesh.pipeline; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        most = plan_stage_weight_bytes(stage) > plan_stage_weight_bytes(most) ? stage : most;
    }
    const char *separator = "";
    ADD("\n  weights of stage %d: ", (int)(most - plan->stages));
    for (int kind = 0; kind < PLAN_WEIGHTS_COUNT; kind++) {
        if (most->weight_bytes[kind] > plan_stage_weight_bytes(most) / KINDS_SHOWN_PARTS) {
            ADD("%s%s ", separator, plan_weights_name((enum plan_weights)kind));
            append_size(out, (double)most->weight_bytes[kind]);
            separator = ", ";
        }
    }
    ADD("\n");
}

static void append_capacity(const struct plan *plan, struct string_buffer *out) {
    static const int64_t contexts[] = {4096, 32768, 131072, 1048576};
    const struct plan_stage *stage = &plan->stages[plan->fullest_stage];
    int replicas = plan->request.mesh.data;
    ADD("  state: ");
    append_size(out, (double)stage->page_bytes / (double)plan->request.page_tokens);
    ADD(" per token and ");
    append_size(out, (double)stage->slot_bytes);
    ADD(" per sequence on stage %d, which has least room: %lld tokens in each replica, %lld in all\n",
        plan->fullest_stage, (long long)plan->token_capacity, (long long)plan->token_capacity * replicas);
    ADD("  sessions:");
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        if (contexts[i] <= plan->model->model->position_limit) {
            ADD("%s %lld of %lldK tokens", i == 0 ? "" : ",",
                (long long)plan_sessions(plan, contexts[i]) * replicas, (long long)contexts[i] / 1024);
        }
    }
    ADD("\n");
}

static void append_traffic(const char *name, const struct plan *plan, const struct plan_traffic *traffic,
                           struct string_buffer *out) {
    const struct mesh_shape *mesh = &plan->request.mesh;
    const char *separator = "";
    ADD("  %s step: ", name);
    if (mesh->tensor > 1) {
        append_size(out, traffic->attention_bytes + traffic->shared_bytes);
        ADD(" per layer in tensor groups (%s)",
            plan->is_group_local[MESH_GROUP_TENSOR] ? "in a host" : "between hosts");
        separator = "; ";
    }
    double for_experts = traffic->route_bytes + traffic->dispatch_bytes + traffic->combine_bytes;
    if (for_experts > 0.0) {
        ADD("%s", separator);
        append_size(out, for_experts);
        ADD(" per layer for experts (%s)",
            plan->is_group_local[MESH_GROUP_EXPERT] ? "in a host" : "between hosts");
        separator = "; ";
    }
    if (mesh->pipeline > 1) {
        ADD("%s", separator);
        append_size(out, traffic->boundary_bytes);
        ADD(" per stage boundary (%s)",
            plan->is_group_local[MESH_GROUP_PIPELINE] ? "in a host" : "between hosts");
    }
    ADD("\n");
}

/* What attention gathers where rows are shared, by kind of layers. */
static void append_gathers(const struct plan *plan, struct string_buffer *out) {
    struct plan_gather gather = {0};
    const char *separator = "  attention gathers ";
    while (plan_next_gather(plan->model->model, &plan->request, &gather)) {
        ADD("%s%s in %d layers from %d on: %zu bytes a row (%s %zu)", separator,
            gather.is_late ? "late" : "early", gather.layer_count, gather.first_layer,
            (gather.is_late ? gather.late_bytes : gather.early_bytes) + gather.chosen_bytes,
            gather.is_late ? "early" : "late",
            (gather.is_late ? gather.early_bytes : gather.late_bytes) + gather.chosen_bytes);
        separator = ", ";
    }
    if (gather.layer_count > 0) {
        ADD("; shared experts are %s\n", plan_has_whole_shared_experts(plan->model->model, &plan->request)
                                             ? "whole on every rank"
                                             : "cut");
    }
}

/* What takes most of a step. */
enum limit { LIMIT_BOUNDARIES, LIMIT_LINKS, LIMIT_COMPUTING, LIMIT_READING };

static enum limit limit_of(const struct plan *plan) {
    int bottleneck = plan->speed.bottleneck_stage;
    if (bottleneck == PLAN_BOUNDARIES) {
        return LIMIT_BOUNDARIES;
    }
    const struct plan_seconds *seconds = &plan->stages[bottleneck].decode;
    if (seconds->link > seconds->read && seconds->link > seconds->compute) {
        return LIMIT_LINKS;
    }
    return seconds->compute > seconds->read ? LIMIT_COMPUTING : LIMIT_READING;
}

static const char *limit_name(enum limit limit) {
    static const char *const names[] = {"stage boundaries", "links", "computing", "reading"};
    return names[limit];
}

/* What would make it less. */
static const char *limit_advice(enum limit limit) {
    static const char *const advice[] = {
        "fewer stages or --sp send less",
        "a smaller -tp, or more stages instead of ranks that share experts, sends less",
        "more ranks share it",
        "more sequences at once share the reading of weights, more ranks divide it",
    };
    return advice[limit];
}

static void append_speed(const struct plan *plan, struct string_buffer *out) {
    const struct plan_speed *speed = &plan->speed;
    ADD("  predicted: %.0f tokens/s with %lld sequences in each replica (%.1f each), prompts %.0f tokens/s\n",
        speed->tokens_per_second, (long long)speed->running_sequences,
        speed->tokens_per_round / speed->cycle_seconds, speed->prefill_tokens_per_second);
    if (plan->request.draft_limit > 0) {
        ADD("  drafts: %.2f tokens per round are assumed; without them choose none and compare\n",
            speed->tokens_per_round);
    }
    enum limit limit = limit_of(plan);
    ADD("  limited by %s", limit_name(limit));
    if (limit != LIMIT_BOUNDARIES) {
        const struct plan_seconds *seconds = &plan->stages[speed->bottleneck_stage].decode;
        ADD(" on stage %d (a decoding step: %.2f ms reading, %.2f computing, %.2f links)",
            speed->bottleneck_stage, seconds->read * 1e3, seconds->compute * 1e3, seconds->link * 1e3);
    }
    ADD("; %s\n", limit_advice(limit));
}

void plan_report_layout(const struct plan *plan, struct string_buffer *out) {
    const struct mesh_shape *mesh = &plan->request.mesh;
    ADD("\nlayout    ");
    append_mesh(&plan->request, out);
    ADD(" on %d rank%s\n", mesh_rank_count(mesh), mesh_rank_count(mesh) == 1 ? "" : "s");
    append_stages(plan, out);
    append_weights(plan, out);
    append_capacity(plan, out);
    if (mesh_rank_count(mesh) > 1) {
        append_traffic("decode", plan, &plan->decode_traffic, out);
        append_traffic("prefill", plan, &plan->prefill_traffic, out);
        append_gathers(plan, out);
    }
    append_speed(plan, out);
    struct string_buffer warnings = {0};
    plan_append_warnings(plan, &warnings);
    const char *text = string_buffer_text(&warnings);
    for (size_t start = 0, i = 0; i < warnings.length; i++) {
        if (text[i] == '\n') {
            ADD("  note: %.*s\n", (int)(i - start), text + start);
            start = i + 1;
        }
    }
    out->is_failed = out->is_failed || warnings.is_failed;
    string_buffer_deinit(&warnings);
}

void plan_report_layouts(const struct plan_layouts *layouts, struct string_buffer *out) {
    ADD("\n%d of %d layouts fit; the fastest:\n  %-26s %10s %10s %12s %12s  %s\n", layouts->fitting,
        layouts->tried, "layout", "tokens/s", "of each", "prompts/s", "KV tokens", "limited by");
    for (int i = 0; i < layouts->count; i++) {
        const struct plan *plan = &layouts->plans[i];
        struct string_buffer mesh = {0};
        append_mesh(&plan->request, &mesh);
        ADD("  %-26s %10.0f %10.1f %12.0f %12lld  %s\n", string_buffer_text(&mesh),
            plan->speed.tokens_per_second, plan->speed.tokens_per_round / plan->speed.cycle_seconds,
            plan->speed.prefill_tokens_per_second, (long long)plan->token_capacity * plan->request.mesh.data,
            limit_name(limit_of(plan)));
        string_buffer_deinit(&mesh);
    }
    for (int i = 0; i < layouts->count; i++) {
        ADD("  %d: ", i + 1);
        plan_reasons_append(&layouts->plans[i], &layouts->plans[0], out);
        ADD("\n");
    }
}

void plan_report_scale(const struct plan_scale *scale, struct string_buffer *out) {
    ADD("\n  %6s %10s  %-26s %8s %10s %10s %12s %14s\n", "ranks", "sequences", "best layout", "free GB",
        "tokens/s", "per rank", "prompts/s", "full sessions");
    for (int i = 0; i < scale->count; i++) {
        const struct plan_scale_row *row = &scale->rows[i];
        const struct plan *plan = &row->plan;
        if (!row->fits) {
            ADD("  %6d %10d  none fits\n", row->rank_count, row->sequence_limit);
            continue;
        }
        struct string_buffer mesh = {0};
        const struct plan_stage *stage = &plan->stages[plan->fullest_stage];
        append_mesh(&plan->request, &mesh);
        ADD("  %6d %10d  %-26s %8.1f %10.0f %10.1f %12.0f %14lld\n", row->rank_count, row->sequence_limit,
            string_buffer_text(&mesh),
            ((double)plan_usable_bytes(&plan->machine) - (double)stage->fixed_bytes) / 1e9,
            plan->speed.tokens_per_second, plan->speed.tokens_per_second / row->rank_count,
            plan->speed.prefill_tokens_per_second,
            (long long)plan_sessions(plan, plan->request.context_tokens) * plan->request.mesh.data);
        string_buffer_deinit(&mesh);
    }
}
