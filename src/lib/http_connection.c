/* What the library tells about connections and requests; runs on its threads. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lib/http_server_impl.h"

/* Bodies under way may hold this many times the limit of one. */
enum { BODY_LIMITS_AT_ONCE = 8 };

static const char OUT_OF_MEMORY_WHY[] = "Too much is being uploaded at once; please try again later.";

static struct http_connection *connection_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

/* Numbers only: no name is looked up. */
static void describe_peer(struct MHD_Connection *connection, char *text, size_t text_bytes) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info == NULL ? NULL : info->client_addr;
    char number[INET6_ADDRSTRLEN] = "";
    if (address != NULL && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, number,
                  sizeof number);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, number,
                  sizeof number);
    }
    snprintf(text, text_bytes, "%s", number[0] == '\0' ? "unix" : number);
}

/* A free entry of the table; NULL if there is none. With the mutex held. */
static struct http_connection *find_free(struct http_server *server) {
    for (size_t i = 0; i < server->connection_capacity; i++) {
        size_t index = (server->search_start + i) % server->connection_capacity;
        if (!server->connections[index].is_used) {
            server->search_start = index + 1;
            return &server->connections[index];
        }
    }
    return NULL;
}

static void open_connection(struct http_server *server, struct MHD_Connection *library_connection,
                            void **socket_context) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(library_connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    pthread_mutex_lock(&server->mutex);
    struct http_connection *entry = find_free(server);
    if (entry != NULL) {
        *entry = (struct http_connection){
            .is_used = true,
            .is_over_limit = server->connection_count >= (size_t)server->options.connection_limit,
            .generation = entry->generation + 1,
            .socket = info->connect_fd,
            .phase = HTTP_PHASE_HEAD,
            .deadline = clock_seconds() + server->options.head_seconds,
        };
        describe_peer(library_connection, entry->peer, sizeof entry->peer);
        server->connection_count++;
    } else {
        /* Nobody could watch it. */
        shutdown(info->connect_fd, SHUT_RDWR);
    }
    *socket_context = entry;
    bool is_first = entry != NULL && server->connection_count == 1;
    pthread_mutex_unlock(&server->mutex);
    if (is_first) {
        http_server_signal(server->wake_event);
    }
}

void http_connection_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code) {
    struct http_server *server = ((const struct http_io *)context)->server;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_connection(server, connection, socket_context);
        return;
    }
    struct http_connection *entry = *socket_context;
    if (entry != NULL) {
        pthread_mutex_lock(&server->mutex);
        entry->is_used = false;
        server->connection_count--;
        pthread_mutex_unlock(&server->mutex);
    }
}

static void enter_phase(struct http_server *server, struct http_connection *entry, enum http_phase phase,
                        double seconds) {
    pthread_mutex_lock(&server->mutex);
    entry->phase = phase;
    entry->deadline = clock_seconds() + seconds;
    pthread_mutex_unlock(&server->mutex);
}

void *http_connection_open_request(void *context, const char *target, struct MHD_Connection *connection) {
    struct http_server *server = ((const struct http_io *)context)->server;
    struct http_connection *entry = connection_of(connection);
    struct http_exchange *exchange = entry == NULL ? NULL : http_exchange_create(context, connection);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->raw_target = target == NULL ? "" : target;
    exchange->raw_target_length = strlen(exchange->raw_target);
    /* Now: the library is about to decode it in place, in its own way. */
    exchange->has_bad_target =
        http_target_parse(exchange->raw_target, exchange->raw_target_length, &exchange->target) != STATUS_OK;
    exchange->connection_index = (size_t)(entry - server->connections);
    memcpy(exchange->peer, entry->peer, sizeof exchange->peer);
    pthread_mutex_lock(&server->mutex);
    entry->exchange = exchange;
    if (entry->phase == HTTP_PHASE_IDLE) {
        entry->phase = HTTP_PHASE_HEAD;
        entry->deadline = clock_seconds() + server->options.head_seconds;
    }
    pthread_mutex_unlock(&server->mutex);
    return exchange;
}

static enum MHD_Result refuse(struct http_exchange *exchange, int status, const char *why) {
    struct http_server *server = exchange->server;
    exchange->last_taken = clock_seconds();
    enter_phase(server, &server->connections[exchange->connection_index], HTTP_PHASE_REPLY, 0.0);
    return http_reply_refuse(exchange, status, why);
}

static enum MHD_Result take_head(struct http_exchange *exchange, const char *method, const char *version) {
    struct http_server *server = exchange->server;
    struct http_connection *entry = &server->connections[exchange->connection_index];
    exchange->has_head = true;
    exchange->knows_interim_replies = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    enter_phase(server, entry, HTTP_PHASE_BODY, server->options.body_seconds);
    struct http_verdict verdict = http_request_read_head(exchange, method, version);
    if (verdict.status != 0) {
        return refuse(exchange, verdict.status, verdict.why);
    }
    if (entry->is_over_limit) {
        return refuse(exchange, 503, "Too many connections are open; please try again later.");
    }
    if (verdict.body_bytes > server->options.body_limit) {
        return refuse(exchange, 413, "The body of the request is too long.");
    }
    return MHD_YES;
}

/* Keeps a piece of the body, or passes over the rest of one that is too long. */
static void take_body(struct http_exchange *exchange, const char *data, size_t length) {
    struct http_server *server = exchange->server;
    if (exchange->is_too_large || length > server->options.body_limit - exchange->body.length) {
        exchange->is_too_large = true;
        return;
    }
    string_buffer_append(&exchange->body, data, length);
    atomic_fetch_add(&server->body_bytes, length);
}

static enum MHD_Result hand_over(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    if (exchange->is_too_large) {
        return refuse(exchange, 413, "The body of the request is too long.");
    }
    bool is_crowded = atomic_load(&server->body_bytes) > BODY_LIMITS_AT_ONCE * server->options.body_limit;
    if (is_crowded || string_buffer_check(&exchange->body) != STATUS_OK) {
        return refuse(exchange, 503, OUT_OF_MEMORY_WHY);
    }
    if (atomic_load(&server->is_draining)) {
        return refuse(exchange, 503, "The server is shutting down.");
    }
    atomic_fetch_add(&server->exchange_count, 1);
    http_exchange_hold(exchange);
    pthread_mutex_lock(&exchange->mutex);
    exchange->is_handed = true;
    http_exchange_suspend(exchange);
    pthread_mutex_unlock(&exchange->mutex);
    pthread_mutex_lock(&server->mutex);
    server->connections[exchange->connection_index].phase = HTTP_PHASE_HANDLED;
    http_watcher_add(server, exchange->connection_index);
    pthread_mutex_unlock(&server->mutex);
    http_handlers_enqueue(exchange);
    return MHD_YES;
}

/* The exchange was resumed: a reply has begun, or there will be none. */
static enum MHD_Result send_reply(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    pthread_mutex_lock(&exchange->mutex);
    struct MHD_Response *response = NULL;
    bool has_reply = exchange->is_started && !exchange->is_cut;
    bool must_wait = !exchange->is_started && !exchange->is_cut;
    if (must_wait) {
        http_exchange_suspend(exchange);
    } else if (has_reply) {
        http_exchange_reply_is_taken(exchange);
        response = http_reply_make_response(exchange);
        exchange->last_taken = clock_seconds();
    }
    int status = exchange->status;
    pthread_mutex_unlock(&exchange->mutex);
    if (response == NULL) {
        return must_wait ? MHD_YES : MHD_NO;
    }
    enter_phase(server, &server->connections[exchange->connection_index], HTTP_PHASE_REPLY, 0.0);
    enum MHD_Result result = MHD_queue_response(exchange->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_connection_take(void *context, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *data_bytes, void **request_context) {
    (void)context;
    (void)connection;
    (void)url;
    struct http_exchange *exchange = *request_context;
    if (exchange == NULL) {
        return MHD_NO;
    }
    if (!exchange->has_head) {
        return take_head(exchange, method, version);
    }
    if (*data_bytes > 0) {
        take_body(exchange, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return exchange->is_handed ? send_reply(exchange) : hand_over(exchange);
}

void http_connection_complete(void *context, struct MHD_Connection *connection, void **request_context,
                              enum MHD_RequestTerminationCode code) {
    (void)connection;
    (void)code;
    struct http_server *server = ((const struct http_io *)context)->server;
    struct http_exchange *exchange = *request_context;
    if (exchange == NULL) {
        return;
    }
    *request_context = NULL;
    http_exchange_detach(exchange);
    pthread_mutex_lock(&server->mutex);
    struct http_connection *entry = &server->connections[exchange->connection_index];
    entry->phase = HTTP_PHASE_IDLE;
    entry->deadline = clock_seconds() + server->options.idle_seconds;
    entry->exchange = NULL;
    http_watcher_forget(server, exchange->connection_index);
    pthread_mutex_unlock(&server->mutex);
    http_exchange_drop(exchange);
}
