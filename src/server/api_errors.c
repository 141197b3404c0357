/* Errors in the shape of the API that was asked: OpenAI's, with vLLM's types and codes, or Anthropic's. */
#include <string.h>

#include "server/api_internal.h"
#include "text/json_writer.h"

struct error_kind {
    int status;
    const char *openai, *anthropic;
};

static const struct error_kind kinds[] = {
    {400, "BadRequestError", "invalid_request_error"},
    {401, "AuthenticationError", "authentication_error"},
    {403, "PermissionDeniedError", "permission_error"},
    {404, "NotFoundError", "not_found_error"},
    {405, "MethodNotAllowedError", "invalid_request_error"},
    {408, "RequestTimeoutError", "invalid_request_error"},
    {413, "RequestTooLargeError", "request_too_large"},
    {429, "RateLimitError", "rate_limit_error"},
    {501, "NotImplementedError", "invalid_request_error"},
    {503, "ServiceUnavailableError", "overloaded_error"},
};

static struct error_kind kind_of(int status) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].status == status) {
            return kinds[i];
        }
    }
    return status < 500 ? kinds[0] : (struct error_kind){status, "InternalServerError", "api_error"};
}

int api_http_status(enum status status) {
    switch (status) {
    case STATUS_USAGE:
    case STATUS_BAD_ARGUMENT:
    case STATUS_BAD_FORMAT:
    case STATUS_UNSUPPORTED:
    case STATUS_OUT_OF_RANGE:
    case STATUS_CONTEXT_FULL:
        return 400;
    case STATUS_NOT_FOUND:
        return 404;
    case STATUS_OUT_OF_MEMORY:
    case STATUS_PEER_LOST:
        return 503;
    default:
        return 500;
    }
}

static bool is_anthropic(const char *path) {
    static const char start[] = "/v1/messages";
    size_t length = strlen(start);
    return strncmp(path, start, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* `code` NULL: the HTTP status. */
static void append_error(struct string_buffer *out, const char *path, int status, const char *message,
                         const char *parameter, const char *code) {
    struct json_writer writer = json_writer_on(out);
    struct error_kind kind = kind_of(status);
    bool is_anthropic_path = is_anthropic(path);
    json_writer_begin(&writer, NULL, '{');
    if (is_anthropic_path) {
        json_writer_text(&writer, "type", "error");
    }
    json_writer_begin(&writer, "error", '{');
    if (is_anthropic_path) {
        json_writer_text(&writer, "type", kind.anthropic);
        json_writer_text(&writer, "message", message);
    } else {
        json_writer_text(&writer, "message", message);
        json_writer_text(&writer, "type", kind.openai);
        if (parameter == NULL || *parameter == '\0') {
            json_writer_null(&writer, "param");
        } else {
            json_writer_text(&writer, "param", parameter);
        }
        if (code == NULL) {
            json_writer_integer(&writer, "code", status);
        } else {
            json_writer_text(&writer, "code", code);
        }
    }
    json_writer_end(&writer, '}');
    json_writer_end(&writer, '}');
}

void api_append_error(struct string_buffer *out, const char *path, int status, const char *message,
                      const char *parameter) {
    append_error(out, path, status, message, parameter, NULL);
}

static void reply_error(struct reply *reply, const char *path, int status, const char *message,
                        const char *parameter, const char *code) {
    static const char last_resort[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                                      "\"InternalServerError\",\"param\":null,\"code\":500}}";
    struct string_buffer body = {0};
    append_error(&body, path, status, message, parameter, code);
    if (string_buffer_check(&body) == STATUS_OK) {
        reply->kind->whole(reply, status, "application/json", body.data, body.length);
    } else {
        reply->kind->whole(reply, 500, "application/json", last_resort, strlen(last_resort));
    }
    string_buffer_deinit(&body);
}

void api_reply_error(struct reply *reply, const char *path, int status, const char *message,
                     const char *parameter) {
    reply_error(reply, path, status, message, parameter, NULL);
}

void api_reply_failure(struct reply *reply, const char *path, enum status status, const char *parameter) {
    int http_status = api_http_status(status);
    if (http_status == 503) {
        reply->kind->header(reply, (struct reply_header){"Retry-After", "1"});
    }
    reply_error(reply, path, http_status, error_last()->message, parameter,
                status == STATUS_CONTEXT_FULL ? "context_length_exceeded" : NULL);
}

void api_reply_json(struct reply *reply, const char *path, const struct string_buffer *body) {
    enum status status = string_buffer_check(body);
    if (status != STATUS_OK) {
        api_reply_failure(reply, path, status, NULL);
        return;
    }
    reply->kind->whole(reply, 200, "application/json", body->data, body->length);
}
