/* Life of a front, and the door that handlers go through: while it closes nobody comes in any more. */
#include "server/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/api_internal.h"
#include "server/front_internal.h"

enum { FLUSH_NANOSECONDS = 5000000, ACCESS_LINES_BYTES = 256 << 10 };

static const double FLUSH_SECONDS = 1.0; /* for the last replies to reach their clients */

static bool enter(struct front *front) {
    pthread_mutex_lock(&front->mutex);
    bool is_open = !front->is_closing;
    front->handling_count += is_open;
    pthread_mutex_unlock(&front->mutex);
    return is_open;
}

static void leave(struct front *front) {
    pthread_mutex_lock(&front->mutex);
    front->handling_count--;
    if (front->handling_count == 0) {
        pthread_cond_broadcast(&front->idle);
    }
    pthread_mutex_unlock(&front->mutex);
}

static void refuse_late(struct front *front, struct http_exchange *exchange) {
    struct string_buffer body = {0};
    const struct http_refusal refusal = {.status = 503,
                                         .why = "the server is stopping; try again later",
                                         .method = http_exchange_method(exchange),
                                         .path = http_exchange_path(exchange),
                                         .peer = http_exchange_peer(exchange)};
    const char *content_type = front_refuse(front, &refusal, &body);
    http_exchange_add_header(exchange, "Retry-After", "1");
    http_exchange_reply(exchange, 503, content_type, string_buffer_text(&body), body.length);
    string_buffer_deinit(&body);
}

static void handle(void *context, struct http_exchange *exchange) {
    struct front *front = context;
    if (!enter(front)) {
        refuse_late(front, exchange);
        return;
    }
    front_dispatch(front, exchange);
    leave(front);
}

static enum status start(struct front *front) {
    static const struct line_writer_options access_lines = {
        .descriptor = STDOUT_FILENO,
        .room_bytes = ACCESS_LINES_BYTES,
        .advice = "lines of the access log are lost, and more will be: who reads stdout is slow or has "
                  "stopped; read "
                  "it, or turn the log off with --disable-uvicorn-access-log"};
    struct front_options *options = &front->options;
    if (options->key_count > 0) {
        TRY(access_keys_create(options->keys, options->key_count, &front->keys));
    }
    if (options->logs_access) {
        TRY(line_writer_create(&access_lines, &front->access_lines));
    }
    struct sluice_engine_facts facts = options->api.service->kind->facts(options->api.service);
    TRY(live_view_create(&options->api, &front->live));
    TRY(metrics_create(facts.context_tokens, &front->metrics));
    options->api.metrics = front->metrics;
    TRY(api_open(&options->api, &front->api));
    options->http.handle = handle;
    options->http.refuse = front_refuse;
    options->http.context = front;
    TRY(http_server_start(&options->http, &front->http));
    return STATUS_OK;
}

enum status front_open(const struct front_options *options, struct front **out) {
    *out = NULL;
    struct front *front = calloc(1, sizeof *front);
    CHECK_MEMORY(front);
    front->options = *options;
    pthread_mutex_init(&front->ready_mutex, NULL);
    pthread_mutex_init(&front->mutex, NULL);
    pthread_cond_init(&front->idle, NULL);
    enum status status = start(front);
    if (status != STATUS_OK) {
        front_close(&front);
        return error_forward(status, ERROR_HERE);
    }
    *out = front;
    return STATUS_OK;
}

int front_port(const struct front *front) {
    return http_server_port(front->http);
}

bool front_is_ready(struct front *front, char *why, size_t why_bytes) {
    struct service *service = front->options.api.service;
    const char *sentence = "";
    if (atomic_load(&front->is_draining)) {
        snprintf(why, why_bytes, "the server is stopping");
        return false;
    }
    pthread_mutex_lock(&front->ready_mutex);
    bool is_ready = service->kind->is_ready(service, &sentence);
    snprintf(why, why_bytes, "%s", is_ready ? "" : sentence);
    pthread_mutex_unlock(&front->ready_mutex);
    return is_ready;
}

void front_drain(struct front *front) {
    atomic_store(&front->is_draining, true);
    http_server_drain(front->http);
}

size_t front_running_count(const struct front *front) {
    return http_server_exchange_count(front->http);
}

/* Handlers that are at work may still add to what the api has to end. */
static void shut_door(struct front *front) {
    pthread_mutex_lock(&front->mutex);
    front->is_closing = true;
    while (front->handling_count > 0) {
        pthread_cond_wait(&front->idle, &front->mutex);
    }
    pthread_mutex_unlock(&front->mutex);
}

static void wait_for_clients(const struct front *front) {
    double deadline = clock_seconds() + FLUSH_SECONDS;
    while (front_running_count(front) > 0 && clock_seconds() < deadline) {
        nanosleep(&(struct timespec){.tv_nsec = FLUSH_NANOSECONDS}, NULL);
    }
}

void front_close(struct front **front_pointer) {
    struct front *front = *front_pointer;
    *front_pointer = NULL;
    if (front == NULL) {
        return;
    }
    if (front->http != NULL) {
        front_drain(front);
        shut_door(front);
    }
    api_close(&front->api);
    if (front->http != NULL) {
        wait_for_clients(front);
        http_server_stop(&front->http);
    }
    live_view_destroy(&front->live);
    metrics_destroy(&front->metrics);
    line_writer_destroy(&front->access_lines);
    access_keys_destroy(&front->keys);
    pthread_cond_destroy(&front->idle);
    pthread_mutex_destroy(&front->mutex);
    pthread_mutex_destroy(&front->ready_mutex);
    free(front);
}
