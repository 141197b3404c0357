/* From a request to the handler of its route. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "server/access_log.h"
#include "server/api_internal.h"
#include "server/cross_origin.h"
#include "server/front_internal.h"
#include "server/route.h"

enum { REQUEST_ID_MAX = 128, PATH_ID_BYTES = 512, METHODS_BYTES = 64 };

/* What vLLM and SGLang answer and a server of this model has nothing for. */
static const char *const foreign_paths[] = {
    "/v1/embeddings",
    "/v1/chat/completions/batch",
    "/v1/chat/completions/render",
    "/v1/completions/render",
    "/v1/audio/{id}",
    "/v1/images/{id}",
    "/v1/score",
    "/v1/rerank",
    "/v2/rerank",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/pooling",
    "/score",
    "/rerank",
    "/classify",
    "/generative_scoring",
    "/invocations",
    "/sleep",
    "/wake_up",
    "/is_sleeping",
    "/collective_rpc",
    "/start_profile",
    "/stop_profile",
    "/pause",
    "/resume",
    "/generate",
    "/get_model_info",
    "/get_server_info",
    "/health_generate",
    "/flush_cache",
};

/* What was found for a path. */
struct route_choice {
    enum route_fit fit;
    const struct front_route *front_route; /* of this method; NULL: another one's, or none */
    const struct api_route *api_route;
    struct route_id id;
    char methods[METHODS_BYTES]; /* of all routes that fit */
};

static const char *header_of(const struct api_request *request, const char *name) {
    return http_exchange_header(request->context, name);
}

static const char *query_of(const struct api_request *request, const char *name) {
    return http_exchange_query(request->context, name);
}

/* Takes a route into account; true if it is the one. */
static bool consider(struct route_choice *choice, const char *pattern, const char *method,
                     const struct api_request *request) {
    struct route_id id;
    enum route_fit fit = route_match(pattern, request->path, &id);
    if (fit == ROUTE_FIT_NONE || fit < choice->fit) {
        return false;
    }
    if (fit > choice->fit) {
        *choice = (struct route_choice){.fit = fit};
    }
    size_t length = strlen(choice->methods);
    snprintf(choice->methods + length, sizeof choice->methods - length, "%s%s", length == 0 ? "" : ", ",
             method);
    bool is_head = strcmp(request->method, "HEAD") == 0 && strcmp(method, "GET") == 0;
    if (!is_head && strcmp(request->method, method) != 0) {
        return false;
    }
    choice->id = id;
    return true;
}

static void choose(const struct api_request *request, struct route_choice *choice) {
    size_t front_count;
    size_t api_count;
    const struct front_route *of_front = front_routes(&front_count);
    const struct api_route *of_api = api_routes(&api_count);
    *choice = (struct route_choice){.fit = ROUTE_FIT_NONE};
    for (size_t i = 0; i < front_count; i++) {
        if (consider(choice, of_front[i].path, of_front[i].method, request)) {
            choice->front_route = &of_front[i];
        }
    }
    for (size_t i = 0; i < api_count; i++) {
        if (consider(choice, of_api[i].path, of_api[i].method, request)) {
            choice->front_route = NULL;
            choice->api_route = &of_api[i];
        }
    }
}

static bool is_foreign(const char *path) {
    struct route_id id;
    for (size_t i = 0; i < sizeof foreign_paths / sizeof *foreign_paths; i++) {
        if (route_match(foreign_paths[i], path, &id) == ROUTE_FIT_EXACT) {
            return true;
        }
    }
    return false;
}

static void reply_without_route(const struct api_request *request, const struct route_choice *choice,
                                struct reply *reply) {
    char message[METHODS_BYTES + 64];
    if (choice->fit != ROUTE_FIT_NONE) {
        reply->kind->header(reply, (struct reply_header){"Allow", choice->methods});
        snprintf(message, sizeof message, "this path takes %s only", choice->methods);
        api_reply_error(reply, request->path, 405, message, NULL);
    } else if (is_foreign(request->path)) {
        api_reply_error(reply, request->path, 501, "this server does not do what this path is for", NULL);
    } else {
        api_reply_error(reply, request->path, 404,
                        "there is nothing at this path; GET /openapi.json lists what there is", NULL);
    }
}

static void run_route(struct front *front, struct api_request *request, struct reply *reply) {
    struct route_choice choice;
    char id[PATH_ID_BYTES];
    choose(request, &choice);
    if (choice.front_route == NULL && choice.api_route == NULL) {
        reply_without_route(request, &choice, reply);
        return;
    }
    if (choice.id.length >= sizeof id) {
        api_reply_error(reply, request->path, 404, "the path names something that does not exist", NULL);
        return;
    }
    if (choice.id.length > 0) {
        memcpy(id, choice.id.start, choice.id.length);
        id[choice.id.length] = '\0';
        request->path_id = id;
    }
    if (choice.front_route != NULL) {
        choice.front_route->handle(front, request, reply);
    } else {
        choice.api_route->handle(front->api, request, reply);
    }
}

static bool is_open_path(const char *path) {
    static const char *const open_paths[] = {"/", "/health", "/ping"};
    for (size_t i = 0; i < sizeof open_paths / sizeof *open_paths; i++) {
        if (strcmp(path, open_paths[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_admitted(const struct front *front, const struct api_request *request) {
    return front->keys == NULL || is_open_path(request->path) ||
           access_keys_admit(front->keys, header_of(request, "Authorization"),
                             header_of(request, "x-api-key"));
}

/* The client's id if it can stand in headers and logs, else a new one. */
static void read_request_id(const struct http_exchange *exchange, char id[REQUEST_ID_MAX + 1]) {
    const char *given = http_exchange_header(exchange, "X-Request-Id");
    size_t length = given == NULL ? 0 : strlen(given);
    bool is_good = length > 0 && length <= REQUEST_ID_MAX;
    for (size_t i = 0; is_good && i < length; i++) {
        is_good = isalnum((unsigned char)given[i]) || strchr("-_.:", given[i]) != NULL;
    }
    if (is_good) {
        memcpy(id, given, length + 1);
    } else {
        api_random_id(id);
    }
}

/* Without the prefix that a proxy may have left. */
static const char *strip_root(const char *path, const char *root) {
    size_t length = root == NULL ? 0 : strlen(root);
    bool has_root = length > 0 && strncmp(path, root, length) == 0 && path[length] == '/';
    return has_root ? path + length : path;
}

void front_dispatch(struct front *front, struct http_exchange *exchange) {
    static const char no_memory[] = "the server is out of memory; try again later\n";
    const struct cross_origin rules = {front->options.allowed_origins, front->options.allowed_origin_count};
    char request_id[REQUEST_ID_MAX + 1];
    read_request_id(exchange, request_id);
    struct reply *reply = front_reply_create(front, exchange, request_id);
    if (reply == NULL) {
        http_exchange_reply(exchange, 503, "text/plain", no_memory, strlen(no_memory));
        return;
    }
    struct api_request request = {
        .method = http_exchange_method(exchange),
        .path = strip_root(http_exchange_path(exchange), front->options.root_path),
        .request_id = request_id,
        .header = header_of,
        .query = query_of,
        .context = exchange,
    };
    request.body = http_exchange_body(exchange, &request.body_length);
    if (cross_origin_is_preflight(&rules, exchange)) {
        cross_origin_add_preflight(exchange);
        reply->kind->whole(reply, 204, "text/plain", "", 0);
    } else if (!is_admitted(front, &request)) {
        reply->kind->header(reply, (struct reply_header){"WWW-Authenticate", "Bearer"});
        api_reply_error(reply, request.path, 401,
                        "a key is needed here: send the header Authorization: Bearer KEY with a key that the "
                        "operator gave you",
                        NULL);
    } else {
        run_route(front, &request, reply);
    }
}

const char *front_refuse(void *context, const struct http_refusal *refusal, struct string_buffer *body) {
    const struct front *front = context;
    metrics_record_reply(front->metrics, refusal->status);
    api_append_error(body, strip_root(refusal->path, front->options.root_path), refusal->status, refusal->why,
                     NULL);
    if (front->access_lines != NULL) {
        const struct access_entry entry = {.peer = refusal->peer,
                                           .method = refusal->method,
                                           .path = refusal->path,
                                           .request_id = "",
                                           .status = refusal->status,
                                           .bytes = body->length};
        access_log_write(front->access_lines, &entry);
    }
    return "application/json";
}
