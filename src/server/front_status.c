/* Routes that concern the server itself. */
#include <string.h>

#include "base/log.h"
#include "server/api_internal.h"
#include "server/front_internal.h"
#include "server/openapi.h"
#include "text/json_writer.h"

enum { WHY_BYTES = 1024 };

static void handle_health(struct front *front, const struct api_request *request, struct reply *reply) {
    char why[WHY_BYTES];
    if (front_is_ready(front, why, sizeof why)) {
        reply->kind->whole(reply, 200, "text/plain", "", 0);
        return;
    }
    reply->kind->header(reply, (struct reply_header){"Retry-After", "1"});
    api_reply_error(reply, request->path, 503, why, NULL);
}

static void handle_version(struct front *front, const struct api_request *request, struct reply *reply) {
    struct string_buffer body = {0};
    struct json_writer writer = json_writer_on(&body);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "version", front->options.version);
    json_writer_end(&writer, '}');
    api_reply_json(reply, request->path, &body);
    string_buffer_deinit(&body);
}

static void handle_load(struct front *front, const struct api_request *request, struct reply *reply) {
    struct string_buffer body = {0};
    struct json_writer writer = json_writer_on(&body);
    json_writer_begin(&writer, NULL, '{');
    json_writer_integer(&writer, "server_load", (int64_t)api_running_count(front->api));
    json_writer_end(&writer, '}');
    api_reply_json(reply, request->path, &body);
    string_buffer_deinit(&body);
}

static void write_memory(struct json_writer *writer, const struct sluice_memory_ledger *memory) {
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        {"mapped_weight_bytes", (int64_t)memory->mapped_weight_bytes},
        {"copied_weight_bytes", (int64_t)memory->copied_weight_bytes},
        {"slot_state_bytes", (int64_t)memory->slot_state_bytes},
        {"snapshot_bytes", (int64_t)memory->snapshot_bytes},
        {"page_state_bytes", (int64_t)memory->page_state_bytes},
        {"step_bytes", (int64_t)memory->step_bytes},
        {"draft_bytes", (int64_t)memory->draft_bytes},
        {"host_bytes", (int64_t)memory->host_bytes},
        {"page_count", memory->page_count},
        {"page_tokens", memory->page_tokens},
        {"token_capacity", memory->token_capacity},
    };
    json_writer_begin(writer, "memory", '{');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_writer_integer(writer, rows[i].name, rows[i].value);
    }
    json_writer_end(writer, '}');
}

static void handle_server_info(struct front *front, const struct api_request *request, struct reply *reply) {
    const struct api_options *options = &front->options.api;
    struct sluice_engine_facts facts = options->service->kind->facts(options->service);
    struct string_buffer body = {0};
    struct json_writer writer = json_writer_on(&body);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "version", front->options.version);
    json_writer_text(&writer, "model", options->model_directory);
    json_writer_begin(&writer, "served_model_names", '[');
    for (size_t i = 0; i < options->model_name_count; i++) {
        json_writer_text(&writer, NULL, options->model_names[i]);
    }
    json_writer_end(&writer, ']');
    json_writer_integer(&writer, "max_model_len", facts.context_tokens);
    json_writer_integer(&writer, "max_num_seqs", facts.sequence_limit);
    json_writer_integer(&writer, "vocabulary_size", facts.vocabulary_size);
    json_writer_integer(&writer, "layer_count", facts.layer_count);
    json_writer_bool(&writer, "has_draft_layer", facts.has_draft_layer);
    json_writer_integer(&writer, "draft_limit", facts.draft_limit);
    json_writer_real(&writer, "load_seconds", facts.load_seconds);
    write_memory(&writer, &facts.memory);
    json_writer_end(&writer, '}');
    api_reply_json(reply, request->path, &body);
    string_buffer_deinit(&body);
}

static void handle_live(struct front *front, const struct api_request *request, struct reply *reply) {
    char why[WHY_BYTES];
    struct string_buffer body = {0};
    const struct live_state state = {.is_ready = front_is_ready(front, why, sizeof why),
                                     .running_count = api_running_count(front->api)};
    live_view_write(front->live, &state, &body);
    reply->kind->header(reply, (struct reply_header){"Cache-Control", "no-store"});
    api_reply_json(reply, request->path, &body);
    string_buffer_deinit(&body);
}

static void handle_metrics(struct front *front, const struct api_request *request, struct reply *reply) {
    const struct api_options *options = &front->options.api;
    struct sluice_engine_facts facts = options->service->kind->facts(options->service);
    struct service_stats stats;
    options->service->kind->stats(options->service, &stats);
    struct metrics_context context = {.model_name = options->model_names[0],
                                      .stats = &stats,
                                      .facts = &facts,
                                      .has_prefix_cache = front->options.has_prefix_cache,
                                      .has_prefix_disk = front->options.has_prefix_disk,
                                      .unknown_field_count = api_unknown_field_count(front->api),
                                      .lost_line_count = log_lost_line_count()};
    if (front->access_lines != NULL) {
        context.dropped_line_count = line_writer_dropped_count(front->access_lines);
    }
    struct string_buffer body = {0};
    metrics_write(front->metrics, &context, &body);
    if (string_buffer_check(&body) == STATUS_OK) {
        reply->kind->whole(reply, 200, "text/plain; version=0.0.4; charset=utf-8", body.data, body.length);
    } else {
        api_reply_failure(reply, request->path, STATUS_OUT_OF_MEMORY, NULL);
    }
    string_buffer_deinit(&body);
}

static void handle_openapi(struct front *front, const struct api_request *request, struct reply *reply) {
    (void)front;
    (void)request;
    reply->kind->whole(reply, 200, "application/json", (const char *)openapi_json, openapi_json_length);
}

static void handle_reset(struct front *front, const struct api_request *request, struct reply *reply) {
    struct service *service = front->options.api.service;
    enum status status = service->kind->clear_prefix_cache(service);
    if (status == STATUS_OK) {
        reply->kind->whole(reply, 200, "application/json", "{}", 2);
    } else {
        api_reply_failure(reply, request->path, status, NULL);
    }
}

static const struct front_route routes[] = {
    {"GET", "/", front_handle_page},
    {"GET", "/health", handle_health},
    {"GET", "/ping", handle_health},
    {"POST", "/ping", handle_health},
    {"GET", "/version", handle_version},
    {"GET", "/load", handle_load},
    {"GET", "/server_info", handle_server_info},
    {"GET", "/live", handle_live},
    {"GET", "/metrics", handle_metrics},
    {"GET", "/openapi.json", handle_openapi},
    {"POST", "/reset_prefix_cache", handle_reset},
};

const struct front_route *front_routes(size_t *count) {
    *count = sizeof routes / sizeof *routes;
    return routes;
}
