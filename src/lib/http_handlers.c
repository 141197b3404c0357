/* Threads that run the handler. The queue needs no bound of its own: a connection has one request in it. */
#include <stdlib.h>

#include "lib/http_server_impl.h"

static void refuse_late(struct http_exchange *exchange) {
    static const char why[] = "The server is shutting down.";
    struct string_buffer body = {0};
    const struct http_refusal refusal = {.status = 503,
                                         .why = why,
                                         .method = exchange->method,
                                         .path = exchange->target.path,
                                         .peer = exchange->peer};
    const char *content_type = http_reply_describe_refusal(exchange->server, &refusal, &body);
    http_exchange_reply(exchange, 503, content_type, string_buffer_text(&body), body.length);
    string_buffer_deinit(&body);
}

void http_handlers_enqueue(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    pthread_mutex_lock(&server->queue_mutex);
    bool is_closed = server->is_queue_closed;
    if (!is_closed) {
        exchange->next_waiting = NULL;
        if (server->last_waiting == NULL) {
            server->first_waiting = exchange;
        } else {
            server->last_waiting->next_waiting = exchange;
        }
        server->last_waiting = exchange;
        pthread_cond_signal(&server->queue_changed);
    }
    pthread_mutex_unlock(&server->queue_mutex);
    if (is_closed) {
        refuse_late(exchange);
    }
}

/* The next exchange; NULL once the queue is closed and empty. */
static struct http_exchange *dequeue(struct http_server *server) {
    pthread_mutex_lock(&server->queue_mutex);
    while (server->first_waiting == NULL && !server->is_queue_closed) {
        pthread_cond_wait(&server->queue_changed, &server->queue_mutex);
    }
    struct http_exchange *exchange = server->first_waiting;
    if (exchange != NULL) {
        server->first_waiting = exchange->next_waiting;
        if (server->first_waiting == NULL) {
            server->last_waiting = NULL;
        }
    }
    pthread_mutex_unlock(&server->queue_mutex);
    return exchange;
}

static void *handle_all(void *context) {
    struct http_server *server = context;
    for (struct http_exchange *exchange; (exchange = dequeue(server)) != NULL;) {
        if (atomic_load(&server->is_draining)) {
            refuse_late(exchange);
        } else {
            server->options.handle(server->options.context, exchange);
        }
    }
    return NULL;
}

enum status http_handlers_start(struct http_server *server) {
    int wanted = server->options.handler_thread_count;
    server->handlers = calloc((size_t)wanted, sizeof *server->handlers);
    CHECK_MEMORY(server->handlers);
    while (server->handler_count < wanted) {
        CHECK(pthread_create(&server->handlers[server->handler_count], NULL, handle_all, server) == 0,
              STATUS_OUT_OF_MEMORY, "a thread for the HTTP server cannot be started");
        server->handler_count++;
    }
    return STATUS_OK;
}

void http_handlers_stop(struct http_server *server) {
    pthread_mutex_lock(&server->queue_mutex);
    server->is_queue_closed = true;
    pthread_cond_broadcast(&server->queue_changed);
    pthread_mutex_unlock(&server->queue_mutex);
    while (server->handler_count > 0) {
        pthread_join(server->handlers[--server->handler_count], NULL);
    }
    free(server->handlers);
    server->handlers = NULL;
}
