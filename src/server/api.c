/* What all APIs share: opening and closing, routes, bodies, ids. */
#include "server/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/condition.h"
#include "lib/hash.h"
#include "server/api_internal.h"

static const struct api_route routes[] = {
    {"POST", "/v1/chat/completions", api_handle_chat},
    {"POST", "/v1/completions", api_handle_completions},
    {"POST", "/v1/messages", api_handle_messages},
    {"POST", "/v1/messages/count_tokens", api_handle_count_tokens},
    {"POST", "/v1/responses", api_handle_responses},
    {"GET", "/v1/responses/{id}", api_handle_response_get},
    {"DELETE", "/v1/responses/{id}", api_handle_response_delete},
    {"POST", "/v1/responses/{id}/cancel", api_handle_response_cancel},
    {"GET", "/v1/models", api_handle_models},
    {"GET", "/v1/models/{id}", api_handle_model},
    {"POST", "/tokenize", api_handle_tokenize},
    {"POST", "/detokenize", api_handle_detokenize},
    {"GET", "/tokenizer_info", api_handle_tokenizer_info},
};

const struct api_route *api_routes(size_t *count) {
    *count = sizeof routes / sizeof *routes;
    return routes;
}

uint64_t api_random(void) {
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        /* Before the system's pool is ready: not secret, but different from call to call. */
        double now = clock_seconds();
        bits = hash_xxh3_128(&now, sizeof now, (uint64_t)(uintptr_t)&bits).low;
    }
    return bits;
}

void api_random_id(char out[API_ID_BYTES]) {
    snprintf(out, API_ID_BYTES, "%016llx%016llx", (unsigned long long)api_random(),
             (unsigned long long)api_random());
}

void api_count_unknown_fields(struct api *api, const struct request_reader *reader) {
    atomic_fetch_add(&api->unknown_field_count, request_reader_unknown_count(reader));
}

size_t api_unknown_field_count(const struct api *api) {
    return atomic_load(&((struct api *)(uintptr_t)api)->unknown_field_count);
}

enum status api_parse_body(const struct api_request *request, struct json **out) {
    static const char json_type[] = "application/json";
    const char *type = request->header(request, "content-type");
    CHECK(
        type == NULL || *type == '\0' || strncasecmp(type, json_type, strlen(json_type)) == 0,
        STATUS_BAD_FORMAT,
        "the body is declared as something other than JSON; send the header Content-Type: application/json");
    return json_parse(request->body, request->body_length, "the request's body", out);
}

enum status api_read_model(const struct api *api, struct request_reader *reader) {
    const char *name = NULL;
    TRY(request_reader_text(reader, "model", &name, NULL));
    for (size_t i = 0; name != NULL && i < api->options.model_name_count; i++) {
        if (strcmp(api->options.model_names[i], name) == 0) {
            return STATUS_OK;
        }
    }
    if (name != NULL) {
        return request_reader_fail(reader, "model", STATUS_NOT_FOUND,
                                   "`%.200s` does not exist here; GET /v1/models lists what does", name);
    }
    return STATUS_OK;
}

enum status api_open(const struct api_options *options, struct api **out) {
    *out = NULL;
    struct api *api = calloc(1, sizeof *api);
    CHECK_MEMORY(api);
    api->options = *options;
    pthread_mutex_init(&api->mutex, NULL);
    pthread_cond_init(&api->emptied, NULL);
    enum status status =
        generation_config_load(options->model_directory, &options->generation, &api->recommended);
    if (status == STATUS_OK) {
        status = request_chat_read_defaults(&api->chat_defaults, options->default_chat_template_kwargs);
    }
    if (status == STATUS_OK) {
        status = task_queue_create(options->thread_count, &api->queue);
    }
    if (status == STATUS_OK) {
        status = response_store_create(options->stored_response_bytes, options->stored_response_seconds,
                                       &api->responses);
    }
    *out = api;
    if (status != STATUS_OK) {
        api_close(out);
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

void api_close(struct api **api_pointer) {
    struct api *api = *api_pointer;
    *api_pointer = NULL;
    if (api == NULL) {
        return;
    }
    pthread_mutex_lock(&api->mutex);
    for (struct answer *answer = api->answers; answer != NULL; answer = answer->next) {
        atomic_store(&answer->is_closing, true);
        task_wake(&answer->task);
    }
    while (api->answers != NULL) {
        pthread_cond_wait(&api->emptied, &api->mutex);
    }
    pthread_mutex_unlock(&api->mutex);
    task_queue_destroy(&api->queue);
    response_store_destroy(&api->responses);
    pthread_cond_destroy(&api->emptied);
    pthread_mutex_destroy(&api->mutex);
    free(api);
}

size_t api_running_count(const struct api *api) {
    return atomic_load(&((struct api *)(uintptr_t)api)->generation_count);
}
