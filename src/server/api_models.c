/* GET /v1/models and /v1/models/{id}. */
#include <string.h>

#include "server/api_internal.h"
#include "text/json_writer.h"

/* When a model was made is not known; a constant keeps replies the same from call to call. */
enum { MODEL_CREATED = 1700000000 };

static void write_permission(struct json_writer *writer, const char *name) {
    static const char *const allowed[] = {"allow_sampling", "allow_logprobs", "allow_view"};
    static const char *const refused[] = {"allow_create_engine", "allow_search_indices", "allow_fine_tuning",
                                          "is_blocking"};
    json_writer_begin(writer, "permission", '[');
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "id", name);
    json_writer_text(writer, "object", "model_permission");
    json_writer_integer(writer, "created", MODEL_CREATED);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        json_writer_bool(writer, allowed[i], true);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_writer_bool(writer, refused[i], false);
    }
    json_writer_text(writer, "organization", "*");
    json_writer_null(writer, "group");
    json_writer_end(writer, '}');
    json_writer_end(writer, ']');
}

static void write_model(struct json_writer *writer, const struct api *api, const char *name) {
    struct service *service = api->options.service;
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "id", name);
    json_writer_text(writer, "object", "model");
    json_writer_integer(writer, "created", MODEL_CREATED);
    json_writer_text(writer, "owned_by", "sluice");
    json_writer_text(writer, "root", api->options.model_directory);
    json_writer_null(writer, "parent");
    json_writer_integer(writer, "max_model_len", service->kind->facts(service).context_tokens);
    write_permission(writer, name);
    json_writer_end(writer, '}');
}

void api_handle_models(struct api *api, const struct api_request *request, struct reply *reply) {
    struct string_buffer body = {0};
    struct json_writer writer = json_writer_on(&body);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "object", "list");
    json_writer_begin(&writer, "data", '[');
    for (size_t i = 0; i < api->options.model_name_count; i++) {
        write_model(&writer, api, api->options.model_names[i]);
    }
    json_writer_end(&writer, ']');
    json_writer_end(&writer, '}');
    api_reply_json(reply, request->path, &body);
    string_buffer_deinit(&body);
}

void api_handle_model(struct api *api, const struct api_request *request, struct reply *reply) {
    for (size_t i = 0; i < api->options.model_name_count; i++) {
        if (request->path_id != NULL && strcmp(api->options.model_names[i], request->path_id) == 0) {
            struct string_buffer body = {0};
            struct json_writer writer = json_writer_on(&body);
            write_model(&writer, api, request->path_id);
            api_reply_json(reply, request->path, &body);
            string_buffer_deinit(&body);
            return;
        }
    }
    api_reply_error(reply, request->path, 404,
                    "this model does not exist here; GET /v1/models lists what does", "model");
}
