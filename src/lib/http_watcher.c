/*
 * A thread that sees clients leave and keeps the deadlines that the library does not know.
 *
 * A client that closes its socket and one that closes its half of it send the same. Only to what is sent then
 * do they answer differently: the host of the first by a reset, which ends the connection in both directions.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/http_server_impl.h"

enum { EVENTS_AT_ONCE = 64, TICK_MS_MIN = 10, TICK_MS_MAX = 250 };

static const uint64_t WAKE_TAG = UINT64_MAX;

/* Names a connection until it is closed; none is WAKE_TAG, since indices are far below 2^32. */
static uint64_t tag_of(const struct http_server *server, size_t index) {
    return (uint64_t)server->connections[index].generation << 32 | index;
}

void http_watcher_add(struct http_server *server, size_t connection_index) {
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT,
                                .data.u64 = tag_of(server, connection_index)};
    epoll_ctl(server->watch_set, EPOLL_CTL_ADD, server->connections[connection_index].socket, &event);
}

void http_watcher_forget(struct http_server *server, size_t connection_index) {
    epoll_ctl(server->watch_set, EPOLL_CTL_DEL, server->connections[connection_index].socket, NULL);
}

/* With the server's mutex held. */
static void watch_for_reset(struct http_server *server, size_t connection_index) {
    struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = tag_of(server, connection_index)};
    epoll_ctl(server->watch_set, EPOLL_CTL_MOD, server->connections[connection_index].socket, &event);
}

static void report_leaving(struct http_server *server, uint64_t tag, bool is_certain) {
    size_t index = (uint32_t)tag;
    struct http_exchange *exchange = NULL;
    pthread_mutex_lock(&server->mutex);
    const struct http_connection *connection = &server->connections[index];
    if (connection->is_used && tag_of(server, index) == tag && connection->exchange != NULL) {
        exchange = connection->exchange;
        http_exchange_hold(exchange);
        if (!is_certain) {
            watch_for_reset(server, index);
            http_exchange_half_close(exchange, connection->socket);
        }
    }
    pthread_mutex_unlock(&server->mutex);
    if (exchange != NULL) {
        if (is_certain) {
            http_exchange_mark_left(exchange);
        }
        http_exchange_drop(exchange);
    }
}

/* Where a reply can still be read as one: nothing was sent for this request, and nothing is encrypted. */
static void send_timeout(struct http_server *server, const struct http_connection *connection) {
    static const char why[] = "The request did not arrive in time.";
    if (server->has_tls) {
        return;
    }
    struct string_buffer body = {0};
    struct string_buffer text = {0};
    const struct http_refusal refusal = {
        .status = 408, .why = why, .method = "", .path = "", .peer = connection->peer};
    const char *content_type = http_reply_describe_refusal(server, &refusal, &body);
    string_buffer_append_format(&text,
                                "HTTP/1.1 408 Request Timeout\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                                "Connection: close\r\n\r\n%s",
                                content_type, body.length, string_buffer_text(&body));
    ssize_t sent =
        send(connection->socket, string_buffer_text(&text), text.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* the connection ends either way */
    string_buffer_deinit(&body);
    string_buffer_deinit(&text);
}

/* With the server's mutex held. */
static void keep_deadline(struct http_server *server, struct http_connection *connection, double now) {
    bool is_late = now > connection->deadline;
    bool is_reading = connection->phase == HTTP_PHASE_HEAD || connection->phase == HTTP_PHASE_BODY;
    if (connection->phase == HTTP_PHASE_IDLE) {
        is_late = is_late || atomic_load(&server->is_draining);
    } else if (connection->phase == HTTP_PHASE_REPLY && connection->exchange != NULL) {
        is_late = http_exchange_is_stalled(connection->exchange, now - server->options.write_seconds);
    } else if (!is_reading) {
        is_late = false;
    }
    if (!is_late) {
        return;
    }
    if (is_reading) {
        send_timeout(server, connection);
        connection->deadline = now + server->options.head_seconds; /* not again before it is closed */
    } else if (connection->exchange != NULL) {
        http_exchange_cut(connection->exchange);
    }
    shutdown(connection->socket, SHUT_RDWR);
}

static void keep_deadlines(struct http_server *server) {
    double now = clock_seconds();
    pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < server->connection_capacity; i++) {
        if (server->connections[i].is_used) {
            keep_deadline(server, &server->connections[i], now);
        }
    }
    pthread_mutex_unlock(&server->mutex);
}

/* An eighth of the shortest deadline. */
static int tick_ms(const struct http_server_options *options) {
    double shortest = options->head_seconds;
    const double others[] = {options->body_seconds, options->idle_seconds, options->write_seconds};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        shortest = others[i] < shortest ? others[i] : shortest;
    }
    double tick = shortest * 1000.0 / 8.0;
    return tick < TICK_MS_MIN ? TICK_MS_MIN : tick > TICK_MS_MAX ? TICK_MS_MAX : (int)tick;
}

static bool has_connections(struct http_server *server) {
    pthread_mutex_lock(&server->mutex);
    bool has_some = server->connection_count > 0;
    pthread_mutex_unlock(&server->mutex);
    return has_some;
}

static void *watch(void *context) {
    struct http_server *server = context;
    const int tick = tick_ms(&server->options);
    double next_look = clock_seconds() + tick / 1000.0;
    while (!atomic_load(&server->is_stopping)) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int count =
            epoll_wait(server->watch_set, events, EVENTS_AT_ONCE, has_connections(server) ? tick : -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == WAKE_TAG) {
                uint64_t wakes;
                ssize_t taken = read(server->wake_event, &wakes, sizeof wakes);
                (void)taken; /* empties the counter */
            } else {
                report_leaving(server, events[i].data.u64, (events[i].events & (EPOLLHUP | EPOLLERR)) != 0);
            }
        }
        if (clock_seconds() >= next_look) {
            keep_deadlines(server);
            next_look = clock_seconds() + tick / 1000.0;
        }
    }
    return NULL;
}

enum status http_watcher_start(struct http_server *server) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_TAG};
    CHECK(epoll_ctl(server->watch_set, EPOLL_CTL_ADD, server->wake_event, &event) == 0, STATUS_IO,
          "the watch over connections cannot be set up: %s", strerror(errno));
    CHECK(pthread_create(&server->watcher, NULL, watch, server) == 0, STATUS_OUT_OF_MEMORY,
          "a thread for the HTTP server cannot be started");
    server->has_watcher = true;
    return STATUS_OK;
}

void http_watcher_stop(struct http_server *server) {
    if (server->has_watcher) {
        http_server_signal(server->wake_event);
        pthread_join(server->watcher, NULL);
        server->has_watcher = false;
    }
}
