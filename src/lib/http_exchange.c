/* Life of an exchange and what handlers do with it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lib/http_server_impl.h"

struct http_exchange *http_exchange_create(struct http_io *io, struct MHD_Connection *connection) {
    struct http_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL || pthread_mutex_init(&exchange->mutex, NULL) != 0) {
        free(exchange);
        return NULL;
    }
    exchange->server = io->server;
    exchange->io = io;
    exchange->connection = connection;
    exchange->is_attached = true;
    atomic_init(&exchange->holder_count, 1);
    return exchange;
}

void http_exchange_hold(struct http_exchange *exchange) {
    atomic_fetch_add(&exchange->holder_count, 1);
}

void http_exchange_drop(struct http_exchange *exchange) {
    if (atomic_fetch_sub(&exchange->holder_count, 1) != 1) {
        return;
    }
    struct http_server *server = exchange->server;
    atomic_fetch_sub(&server->body_bytes, exchange->body.length);
    bool was_handed = exchange->is_handed;
    http_target_deinit(&exchange->target);
    free(exchange->field_storage);
    string_buffer_deinit(&exchange->body);
    string_buffer_deinit(&exchange->head_fields);
    string_buffer_deinit(&exchange->out);
    pthread_mutex_destroy(&exchange->mutex);
    free(exchange);
    if (was_handed) {
        /* Last: the server may be freed once the count is zero. */
        atomic_fetch_sub(&server->exchange_count, 1);
    }
}

void http_exchange_suspend(struct http_exchange *exchange) {
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->connection);
}

/* With the mutex held. */
static void resume(struct http_exchange *exchange) {
    if (exchange->is_attached && exchange->is_suspended) {
        exchange->is_suspended = false;
        MHD_resume_connection(exchange->connection);
        http_server_signal(exchange->io->wake_event);
    }
}

/* With the mutex held. */
static void tell_of_leaving(struct http_exchange *exchange) {
    if (!exchange->is_ended && !exchange->has_left) {
        exchange->has_left = true;
        if (exchange->left != NULL) {
            exchange->left(exchange->left_context, true);
        }
    }
}

/* Sends what a client that waits passes over, and a host whose client is gone answers by a reset. */
static void send_interim_reply(int socket) {
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ssize_t sent = send(socket, interim, sizeof interim - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* one that cannot be sent has told as much by what comes of it */
}

void http_exchange_half_close(struct http_exchange *exchange, int socket) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->is_half_closed = true;
    if (exchange->is_started) {
        if (!exchange->is_ended && exchange->left != NULL) {
            exchange->left(exchange->left_context, false);
        }
    } else if (exchange->server->has_tls || !exchange->knows_interim_replies) {
        tell_of_leaving(exchange);
    } else if (exchange->is_suspended) {
        /* The library sends nothing meanwhile: it is resumed under this lock. */
        send_interim_reply(socket);
    }
    pthread_mutex_unlock(&exchange->mutex);
}

void http_exchange_mark_left(struct http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    tell_of_leaving(exchange);
    pthread_mutex_unlock(&exchange->mutex);
}

void http_exchange_detach(struct http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->is_attached = false;
    if (exchange->is_handed) {
        tell_of_leaving(exchange);
    }
    pthread_mutex_unlock(&exchange->mutex);
}

void http_exchange_cut(struct http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->is_cut = true;
    if (exchange->is_handed) {
        tell_of_leaving(exchange);
    }
    resume(exchange);
    pthread_mutex_unlock(&exchange->mutex);
}

bool http_exchange_is_stalled(struct http_exchange *exchange, double moment) {
    pthread_mutex_lock(&exchange->mutex);
    bool is_stalled = !exchange->is_suspended && !exchange->is_cut && exchange->last_taken < moment;
    pthread_mutex_unlock(&exchange->mutex);
    return is_stalled;
}

const char *http_exchange_method(const struct http_exchange *exchange) {
    return exchange->method;
}

const char *http_exchange_path(const struct http_exchange *exchange) {
    return exchange->target.path;
}

const char *http_exchange_query(const struct http_exchange *exchange, const char *name) {
    return http_target_query(&exchange->target, name);
}

const char *http_exchange_header(const struct http_exchange *exchange, const char *name) {
    const char *at = exchange->field_storage;
    for (size_t i = 0; i < exchange->field_count; i++) {
        const char *value = at + strlen(at) + 1;
        if (strcasecmp(at, name) == 0) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}

const char *http_exchange_body(const struct http_exchange *exchange, size_t *length) {
    *length = exchange->body.length;
    return string_buffer_text(&exchange->body);
}

const char *http_exchange_peer(const struct http_exchange *exchange) {
    return exchange->peer;
}

size_t http_exchange_reply_bytes(const struct http_exchange *exchange) {
    return exchange->out_total;
}

static void append_header(struct http_exchange *exchange, const char *name, const char *value) {
    string_buffer_append(&exchange->head_fields, name, strlen(name) + 1);
    string_buffer_append(&exchange->head_fields, value, strlen(value) + 1);
}

void http_exchange_add_header(struct http_exchange *exchange, const char *name, const char *value) {
    pthread_mutex_lock(&exchange->mutex);
    append_header(exchange, name, value);
    pthread_mutex_unlock(&exchange->mutex);
}

/*
 * The library (0.9.75) reads from a resumed connection before it looks whether there is a reply, and closes
 * it if the input has ended, unless the connection has a time limit of its own: those it looks at first. It
 * has one until the library takes the reply (http_exchange_reply_is_taken).
 */
static void have_reply_seen_first(struct http_exchange *exchange) {
    const unsigned ages_seconds = 1000000;
    if (exchange->is_attached && exchange->is_suspended) {
        MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT, ages_seconds);
    }
}

void http_exchange_reply_is_taken(struct http_exchange *exchange) {
    MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
}

/* With the mutex held. */
static void begin_reply(struct http_exchange *exchange, int status, const char *content_type) {
    have_reply_seen_first(exchange);
    exchange->status = status;
    exchange->is_started = true;
    if (content_type != NULL) {
        append_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    }
}

void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const char *body, size_t length) {
    pthread_mutex_lock(&exchange->mutex);
    begin_reply(exchange, status, content_type);
    string_buffer_append(&exchange->out, body, length);
    exchange->out_total = length;
    exchange->is_whole = true;
    exchange->is_ended = true;
    resume(exchange);
    pthread_mutex_unlock(&exchange->mutex);
    http_exchange_drop(exchange);
}

void http_exchange_start(struct http_exchange *exchange, int status, const char *content_type) {
    pthread_mutex_lock(&exchange->mutex);
    begin_reply(exchange, status, content_type);
    resume(exchange);
    pthread_mutex_unlock(&exchange->mutex);
}

/* Shuts the socket of a connection down, unless it works on another request by now. */
static void shut_down(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    pthread_mutex_lock(&server->mutex);
    const struct http_connection *connection = &server->connections[exchange->connection_index];
    if (connection->exchange == exchange) {
        shutdown(connection->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&server->mutex);
}

bool http_exchange_write(struct http_exchange *exchange, const char *bytes, size_t length) {
    pthread_mutex_lock(&exchange->mutex);
    bool is_open = exchange->is_attached && !exchange->has_left && !exchange->is_cut;
    size_t waiting = exchange->out.length - exchange->out_taken;
    bool is_full = is_open && length > exchange->server->options.write_limit - waiting;
    if (is_open && !is_full) {
        string_buffer_append(&exchange->out, bytes, length);
        exchange->out_total += length;
        is_full = string_buffer_check(&exchange->out) != STATUS_OK;
        resume(exchange);
    }
    pthread_mutex_unlock(&exchange->mutex);
    if (is_full) {
        http_exchange_cut(exchange);
        shut_down(exchange);
    }
    return is_open && !is_full;
}

void http_exchange_end(struct http_exchange *exchange) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->is_ended = true;
    resume(exchange);
    pthread_mutex_unlock(&exchange->mutex);
    http_exchange_drop(exchange);
}

void http_exchange_on_leave(struct http_exchange *exchange, void (*left)(void *context, bool is_certain),
                            void *context) {
    pthread_mutex_lock(&exchange->mutex);
    exchange->left = left;
    exchange->left_context = context;
    if (left != NULL && (exchange->has_left || (exchange->is_half_closed && exchange->is_started))) {
        left(context, exchange->has_left);
    }
    pthread_mutex_unlock(&exchange->mutex);
}
