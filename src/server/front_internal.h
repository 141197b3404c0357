/* The parts of a front, for its own files. */
#ifndef SLUICE_SERVER_FRONT_INTERNAL_H
#define SLUICE_SERVER_FRONT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/access_keys.h"
#include "server/front.h"
#include "server/line_writer.h"
#include "server/live_view.h"
#include "server/metrics.h"

struct front {
    struct front_options options;
    struct api *api;
    struct http_server *http;
    struct access_keys *keys; /* NULL: everybody may ask */
    struct live_view *live;
    struct metrics *metrics;
    struct line_writer *access_lines; /* NULL: there is no access log */
    atomic_bool is_draining;

    pthread_mutex_t ready_mutex; /* one asks the service at a time: its sentence is valid until the next */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t idle;
    size_t handling_count; /* handlers at work */
    bool is_closing;
};

/* A path that the front answers itself. */
struct front_route {
    const char *method;
    const char *path;
    void (*handle)(struct front *front, const struct api_request *request, struct reply *reply);
};

/* GET / (front_page.c). */
void front_handle_page(struct front *front, const struct api_request *request, struct reply *reply);

/* Its routes (front_status.c). */
const struct front_route *front_routes(size_t *count);

/* Finds the route and runs its handler, or replies that there is none (front_dispatch.c). */
void front_dispatch(struct front *front, struct http_exchange *exchange);

/* Handler and refusal of the HTTP server; `context` is the front. */
const char *front_refuse(void *context, const struct http_refusal *refusal, struct string_buffer *body);

/*
 * A reply over the exchange, with the headers that every reply has (front_reply.c). NULL if memory is out.
 * It frees itself once it is ended.
 */
struct reply *front_reply_create(struct front *front, struct http_exchange *exchange, const char *request_id);

#endif
