#include "cli/serve_options.h"

#include <string.h>

#include "lib/json.h"
#include "lib/secret_file.h"
#include "server/request_chat.h"

enum { ARENA_BYTES = 1 << 12, API_THREADS = 2, HANDLER_THREADS = 2 };

static const size_t STORED_RESPONSE_BYTES = (size_t)64 << 20;
static const double STORED_RESPONSE_SECONDS = 24 * 3600.0;
static const double KEEP_ALIVE_SECONDS = 5.0;

static enum status add_key(struct serve_options *out, const char *key) {
    CHECK(out->front.key_count < SERVE_NAMES_MAX, STATUS_USAGE, "more than %d API keys were given",
          SERVE_NAMES_MAX);
    out->keys[out->front.key_count++] = key;
    return STATUS_OK;
}

static enum status read_keys(const struct cli_options *options, struct serve_options *out) {
    for (int i = 0; i < options->api_key.count; i++) {
        TRY(add_key(out, options->api_key.items[i]));
    }
    if (options->api_key_file != NULL) {
        TRY(secret_file_read(options->api_key_file, &out->key_file));
        char *rest = NULL;
        for (char *line = strtok_r(out->key_file.data, "\r\n", &rest); line != NULL;
             line = strtok_r(NULL, "\r\n", &rest)) {
            TRY(add_key(out, line));
        }
    }
    out->front.keys = out->keys;
    return STATUS_OK;
}

static enum status add_origin(struct serve_options *out, const char *origin) {
    size_t *count = &out->front.allowed_origin_count;
    CHECK(*count < SERVE_NAMES_MAX, STATUS_USAGE, "more than %d origins were given", SERVE_NAMES_MAX);
    CHECK(strcmp(origin, "*") == 0 || strstr(origin, "://") != NULL, STATUS_USAGE,
          "--allowed-origins takes origins such as https://example.org, or *, not \"%s\"", origin);
    out->origins[(*count)++] = origin;
    return STATUS_OK;
}

static enum status add_origins_of_json(struct serve_options *out, const struct json *list) {
    CHECK(json_kind(list) == JSON_KIND_ARRAY, STATUS_USAGE, "the JSON of --allowed-origins is no array");
    for (size_t i = 0; i < json_length(list); i++) {
        size_t length;
        const char *text = json_text(json_at(list, i), &length);
        CHECK(text != NULL, STATUS_USAGE, "entry %zu of --allowed-origins is no string", i);
        const char *copy = arena_copy_string(&out->arena, text, length);
        CHECK_MEMORY(copy);
        TRY(add_origin(out, copy));
    }
    return STATUS_OK;
}

static enum status read_origins(const struct cli_options *options, struct serve_options *out) {
    out->front.allowed_origins = out->origins;
    for (int i = 0; i < options->allowed_origins.count; i++) {
        const char *text = options->allowed_origins.items[i];
        if (*text != '[') {
            TRY(add_origin(out, text));
            continue;
        }
        struct json *list = NULL;
        TRY(json_parse(text, strlen(text), "the value of --allowed-origins", &list));
        enum status status = add_origins_of_json(out, list);
        json_free(&list);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status read_api(const struct cli_options *options, struct serve_options *out) {
    out->front.api = (struct api_options){
        .model_directory = options->model,
        .model_names = out->model_names,
        .model_name_count = 1,
        .default_chat_template_kwargs = options->default_chat_template_kwargs,
        .log_probability_limit = (int)options->max_logprobs,
        .stored_response_bytes = STORED_RESPONSE_BYTES,
        .stored_response_seconds = STORED_RESPONSE_SECONDS,
        .keep_alive_seconds = KEEP_ALIVE_SECONDS,
        .prints_tokens_details = options->enable_prompt_tokens_details,
        .forces_usage = options->enable_force_include_usage,
        .has_tokenizer_info = options->enable_tokenizer_info_endpoint,
        .running_limit = (size_t)options->max_requests,
        .thread_count = API_THREADS,
    };
    out->model_names[0] = options->model;
    for (int i = 0; i < options->served_model_name.count; i++) {
        out->model_names[i] = options->served_model_name.items[i];
        out->front.api.model_name_count = (size_t)i + 1;
    }
    out->front.api.generation = (struct generation_choice){.source = options->generation_config,
                                                           .overrides = options->override_generation_config};
    TRY(generation_choice_check(&out->front.api.generation));
    /* The API reads them too, but only once the model is loaded. */
    struct request_chat unused;
    enum status status = request_chat_read_defaults(&unused, options->default_chat_template_kwargs);
    return status == STATUS_OK ? STATUS_OK : error_forward(STATUS_USAGE, ERROR_HERE);
}

static enum status read_address(const struct cli_options *options, struct serve_options *out) {
    struct http_server_options *http = &out->front.http;
    CHECK((options->ssl_certfile == NULL) == (options->ssl_keyfile == NULL), STATUS_USAGE,
          "TLS needs both --ssl-certfile and --ssl-keyfile");
    *http = http_server_options_default();
    http->host = options->host;
    http->port = (int)options->port;
    http->unix_path = options->uds;
    http->certificate_file = options->ssl_certfile;
    http->key_file = options->ssl_keyfile;
    http->body_limit = (size_t)options->max_body_bytes;
    http->connection_limit = (int)options->max_connections;
    http->connections_per_address = (int)options->max_connections_per_address;
    http->handler_thread_count = HANDLER_THREADS;
    const char *root = options->root_path;
    size_t length = root == NULL ? 0 : strlen(root);
    CHECK(length == 0 || (root[0] == '/' && root[length - 1] != '/'), STATUS_USAGE,
          "--root-path begins with a slash and ends without one, unlike \"%s\"", root);
    out->front.root_path = root;
    return STATUS_OK;
}

enum status serve_options_read(const struct cli_options *options, const char *version,
                               struct serve_options *out) {
    *out = (struct serve_options){.front = {.version = version}};
    arena_init(&out->arena, ARENA_BYTES);
    out->front.has_prefix_cache = options->enable_prefix_caching;
    out->front.has_prefix_disk = options->prefix_cache_dir != NULL;
    out->front.logs_access = !options->disable_uvicorn_access_log;
    TRY(read_address(options, out));
    TRY(read_api(options, out));
    TRY(read_keys(options, out));
    return read_origins(options, out);
}

void serve_options_deinit(struct serve_options *options) {
    string_buffer_deinit(&options->key_file);
    arena_deinit(&options->arena);
}
