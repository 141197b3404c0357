/* Errors are quoted as the server writes them: {"error": {"message": ...}}, or else the beginning of the
 * body. */
#include "tools/api_client.h"

#include <string.h>

enum { QUOTED_BYTES_MAX = 300 };

static const double CONNECT_SECONDS = 10.0;
static const double WAIT_SECONDS = 1.0;

static bool ends_with(const struct string_buffer *text, const char *end) {
    size_t length = strlen(end);
    return text->length >= length && strcmp(text->data + text->length - length, end) == 0;
}

/* Paths begin with "/v1" where the API has it. */
static void set_base_url(struct api_client *client, const char *url) {
    string_buffer_append_text(&client->base_url, url);
    while (ends_with(&client->base_url, "/")) {
        string_buffer_drop_back(&client->base_url, 1);
    }
    if (ends_with(&client->base_url, "/v1")) {
        string_buffer_drop_back(&client->base_url, strlen("/v1"));
    }
}

static enum status find_model(struct api_client *client) {
    struct json *models = NULL;
    TRY(api_client_ask(client, "/v1/models", NULL, &models));
    const char *id = json_text(json_get(json_at(json_get(models, "data"), 0), "id"), NULL);
    bool has_model = id != NULL;
    string_buffer_append_text(&client->model, has_model ? id : "");
    json_free(&models);
    CHECK(has_model, STATUS_IO, "%s/v1/models lists no model; name one with --model",
          string_buffer_text(&client->base_url));
    return string_buffer_check(&client->model);
}

enum status api_client_open(const struct api_client_options *options, struct api_client *out) {
    *out = (struct api_client){0};
    struct http_client_options http = {.bearer_token = options->api_key,
                                       .connect_timeout_seconds = CONNECT_SECONDS,
                                       .timeout_seconds = options->timeout_seconds};
    set_base_url(out, options->base_url);
    enum status status = string_buffer_check(&out->base_url);
    status = status == STATUS_OK ? http_client_create(&http, &out->http) : status;
    if (status == STATUS_OK && options->model != NULL) {
        string_buffer_append_text(&out->model, options->model);
        status = string_buffer_check(&out->model);
    } else if (status == STATUS_OK) {
        status = find_model(out);
    }
    if (status != STATUS_OK) {
        api_client_close(out);
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

void api_client_close(struct api_client *client) {
    http_client_destroy(&client->http);
    string_buffer_deinit(&client->base_url);
    string_buffer_deinit(&client->model);
}

static enum status start_at(struct api_client *client, const char *path,
                            const struct http_client_request *request) {
    struct http_client_request full = *request;
    struct string_buffer url = {0};
    string_buffer_append_format(&url, "%s%s", string_buffer_text(&client->base_url), path);
    enum status status = string_buffer_check(&url);
    if (status == STATUS_OK) {
        full.url = string_buffer_text(&url);
        status = http_client_start(client->http, &full);
    }
    string_buffer_deinit(&url);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status api_client_start(struct api_client *client, const char *path, const struct string_buffer *body,
                             const struct http_client_request *callbacks) {
    struct http_client_request request = *callbacks;
    request.body = string_buffer_text(body);
    request.body_length = body->length;
    return start_at(client, path, &request);
}

void api_client_describe(const struct http_client_result *result, struct string_buffer *out) {
    struct json *body = NULL;
    const char *message = NULL;
    if (result->body_length > 0 &&
        json_parse(result->body, result->body_length, "the answer", &body) == STATUS_OK) {
        const struct json *error = json_get(body, "error");
        message = json_text(json_get(error != NULL ? error : body, "message"), NULL);
    }
    if (result->status_code != 0 && result->status_code != 200) {
        string_buffer_append_format(out, "%ld", result->status_code);
    }
    const char *words = message != NULL ? message : result->is_complete ? result->body : result->message;
    if (words[0] != '\0') {
        string_buffer_append_format(out, "%s%.*s", out->length > 0 ? ": " : "", QUOTED_BYTES_MAX, words);
    }
    json_free(&body);
}

/* What a request that is waited for leaves. */
struct asked {
    bool is_done;
    enum status status;
    struct string_buffer message;
    struct json *answer;
};

static void take_answer(void *context, const struct http_client_result *result) {
    struct asked *asked = context;
    asked->is_done = true;
    if (result->is_complete && result->status_code == 200) {
        asked->status = json_parse(result->body, result->body_length, "the answer", &asked->answer);
        string_buffer_append_text(&asked->message, asked->status == STATUS_OK ? "" : error_last()->message);
        return;
    }
    asked->status = STATUS_IO;
    api_client_describe(result, &asked->message);
}

enum status api_client_ask(struct api_client *client, const char *path, const struct json *body,
                           struct json **answer) {
    enum status status = STATUS_OK;
    struct asked asked = {0};
    struct string_buffer text = {0};
    struct http_client_request request = {.on_done = take_answer, .context = &asked};
    if (body != NULL) {
        TRY_GOTO(json_write(body, &text));
        request.body = string_buffer_text(&text);
        request.body_length = text.length;
    }
    TRY_GOTO(start_at(client, path, &request));
    while (!asked.is_done) {
        TRY_GOTO(http_client_run(client->http, WAIT_SECONDS));
    }
    CHECK_GOTO(asked.status == STATUS_OK, asked.status, "%s%s: %s", string_buffer_text(&client->base_url),
               path, string_buffer_text(&asked.message));
    *answer = asked.answer;
    asked.answer = NULL;
fail:
    string_buffer_deinit(&text);
    string_buffer_deinit(&asked.message);
    return status;
}
