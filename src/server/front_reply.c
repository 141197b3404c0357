/* A reply over an HTTP exchange; its end writes the line of the access log. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/access_log.h"
#include "server/cross_origin.h"
#include "server/front_internal.h"

enum { REQUEST_ID_BYTES = 136 };

struct front_reply {
    struct reply reply;
    struct http_exchange *exchange;
    const struct front *front;
    double started_at;
    int status;
    atomic_bool has_left;
    void (*left)(void *context, bool is_certain);
    void *left_context;
    char request_id[REQUEST_ID_BYTES];
};

static struct front_reply *own(struct reply *reply) {
    return (struct front_reply *)(void *)reply;
}

/* While the exchange still is there. */
static void log_access(const struct front_reply *reply, size_t bytes) {
    metrics_record_reply(reply->front->metrics, reply->status);
    if (reply->front->access_lines == NULL) {
        return;
    }
    const struct access_entry entry = {
        .peer = http_exchange_peer(reply->exchange),
        .method = http_exchange_method(reply->exchange),
        .path = http_exchange_path(reply->exchange),
        .request_id = reply->request_id,
        .status = reply->status,
        .bytes = bytes,
        .seconds = clock_seconds() - reply->started_at,
        .has_left = atomic_load(&reply->has_left),
    };
    access_log_write(reply->front->access_lines, &entry);
}

static void whole(struct reply *reply, int status, const char *content_type, const char *body,
                  size_t length) {
    struct front_reply *self = own(reply);
    self->status = status;
    log_access(self, length);
    http_exchange_reply(self->exchange, status, content_type, body, length);
    free(self);
}

static void start(struct reply *reply, int status, const char *content_type) {
    own(reply)->status = status;
    http_exchange_start(own(reply)->exchange, status, content_type);
}

static bool write_piece(struct reply *reply, const char *bytes, size_t length) {
    return http_exchange_write(own(reply)->exchange, bytes, length);
}

static void end(struct reply *reply) {
    struct front_reply *self = own(reply);
    log_access(self, http_exchange_reply_bytes(self->exchange));
    http_exchange_end(self->exchange);
    free(self);
}

static void add_header(struct reply *reply, struct reply_header header) {
    http_exchange_add_header(own(reply)->exchange, header.name, header.value);
}

static void remember_leaving(void *context, bool is_certain) {
    struct front_reply *self = context;
    if (is_certain) {
        atomic_store(&self->has_left, true);
    }
    self->left(self->left_context, is_certain);
}

static void on_leave(struct reply *reply, void (*left)(void *context, bool is_certain), void *context) {
    struct front_reply *self = own(reply);
    self->left = left;
    self->left_context = context;
    http_exchange_on_leave(self->exchange, remember_leaving, self);
}

struct reply *front_reply_create(struct front *front, struct http_exchange *exchange,
                                 const char *request_id) {
    static const struct reply_kind kind = {
        .whole = whole,
        .start = start,
        .write = write_piece,
        .end = end,
        .header = add_header,
        .on_leave = on_leave,
    };
    struct front_reply *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    self->reply.kind = &kind;
    self->exchange = exchange;
    self->front = front;
    self->started_at = clock_seconds();
    snprintf(self->request_id, sizeof self->request_id, "%s", request_id);
    const struct cross_origin rules = {front->options.allowed_origins, front->options.allowed_origin_count};
    http_exchange_add_header(exchange, "X-Request-Id", request_id);
    cross_origin_add_headers(&rules, exchange);
    return &self->reply;
}
