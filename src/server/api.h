/*
 * The APIs: what a path does with a request.
 *
 * A handler runs on one of the front's threads, checks its request, and either replies at once or submits
 * generations and returns; from then on the generations' tokens drive the reply, through the task queue.
 */
#ifndef SLUICE_SERVER_API_H
#define SLUICE_SERVER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/generation_config.h"
#include "server/reply.h"
#include "server/service.h"

struct api;
struct metrics;
struct tokenizer;

/* What the operator chose; borrowed as long as the api lives. */
struct api_options {
    struct service *service;
    const struct tokenizer *tokenizer;
    struct metrics *metrics;        /* NULL: nothing is counted */
    const char *model_directory;    /* config.json and generation_config.json are read there */
    const char *const *model_names; /* as clients call it; the first one is what replies say */
    size_t model_name_count;
    const char *default_chat_template_kwargs; /* JSON object; NULL: none */
    struct generation_choice generation;
    int log_probability_limit;    /* --max-logprobs */
    size_t stored_response_bytes; /* of /v1/responses, least recently used go first */
    double stored_response_seconds;
    double keep_alive_seconds;  /* between comments of a stream that has nothing to say */
    bool prints_tokens_details; /* --enable-prompt-tokens-details */
    bool forces_usage;          /* --enable-force-include-usage */
    bool has_tokenizer_info;    /* --enable-tokenizer-info-endpoint */
    size_t running_limit;       /* generations at once; above it clients get 429 with Retry-After */
    int thread_count;           /* of the task queue */
};

/* A request as it came in; borrowed until the handler returns. */
struct api_request {
    const char *method;
    const char *path;
    const char *path_id;    /* what stood for {id}; NULL if the route has none */
    const char *request_id; /* the client's x-request-id, or one made for it; goes into the reply's head */
    const char *body;
    size_t body_length;
    const char *(*header)(const struct api_request *request, const char *name); /* NULL if absent */
    const char *(*query)(const struct api_request *request, const char *name);  /* the same */
    void *context;                                                              /* of the two functions */
};

struct api_route {
    const char *method;
    const char *path; /* "/v1/responses/{id}/cancel" */
    void (*handle)(struct api *api, const struct api_request *request, struct reply *reply);
};

/* All routes of model APIs. Other paths (health, metrics, page) belong to the server. */
const struct api_route *api_routes(size_t *count);

/* Reads the model's configuration and starts the task queue. Owned: api_close. */
enum status api_open(const struct api_options *options, struct api **out);

/* Cancels what runs; replies that are under way end with an error. Nulls. */
void api_close(struct api **api);

/* Generations under way, for drain and /load. */
size_t api_running_count(const struct api *api);

/* Fields of requests so far that no API knows; they are ignored. */
size_t api_unknown_field_count(const struct api *api);

/*
 * Sends the error body of OpenAI's API, or of Anthropic's below /v1/messages: {"error": {"message", "type",
 * "param", "code"}}. `parameter` NULL: none. Ill-formed UTF-8 in the message is replaced.
 */
void api_reply_error(struct reply *reply, const char *path, int status, const char *message,
                     const char *parameter);

#endif
