/*
 * Start, drain and stop.
 *
 * The library (libmicrohttpd) reads requests and sends replies on I/O threads. While a handler works, its
 * connection is suspended; a reply's bytes wait in the exchange until the library asks for them. A watcher
 * sees what the library does not: clients that leave meanwhile, and deadlines.
 */
#include "lib/http_server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/http_listen.h"
#include "lib/http_server_impl.h"

enum {
    SPARE_CONNECTIONS = 64, /* over the limit: they get a refusal */
    OTHER_DESCRIPTORS = 64, /* of the program, besides connections */
    PEM_BYTES_MAX = 1024 * 1024,
};

struct http_server_options http_server_options_default(void) {
    return (struct http_server_options){
        .host = "127.0.0.1",
        .port = 8000,
        .listen_socket = -1,
        .body_limit = 32u << 20,
        .header_limit = 64u << 10,
        .connection_limit = 4096,
        .head_seconds = 10.0,
        .body_seconds = 60.0,
        .idle_seconds = 75.0,
        .write_seconds = 60.0,
        .write_limit = 16u << 20,
        .io_thread_count = 1,
        .handler_thread_count = 2,
    };
}

/* More connections than the system lets this process have would hang instead of being refused. */
static void fit_descriptors(struct http_server_options *options) {
    struct rlimit limit;
    rlim_t wanted = (rlim_t)options->connection_limit + SPARE_CONNECTIONS + OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return;
    }
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted) {
        rlim_t rest = limit.rlim_cur > 2 * (SPARE_CONNECTIONS + OTHER_DESCRIPTORS)
                          ? limit.rlim_cur - SPARE_CONNECTIONS - OTHER_DESCRIPTORS
                          : SPARE_CONNECTIONS;
        log_write(LOG_WARNING, "http",
                  "this process may open %lu files only, so it takes %lu connections instead of %d",
                  (unsigned long)limit.rlim_cur, (unsigned long)rest, options->connection_limit);
        options->connection_limit = (int)rest;
    }
}

/* A PEM file as text. Owned: free. */
static enum status read_pem(const char *path, char **out) {
    enum status status = STATUS_OK;
    size_t length = 0;
    char *text = NULL;
    CHECK(path != NULL, STATUS_BAD_ARGUMENT, "TLS needs both files: the certificate's and the key's");
    FILE *file = fopen(path, "rbe");
    CHECK(file != NULL, STATUS_NOT_FOUND, "the file %s for TLS cannot be opened", path);
    text = malloc(PEM_BYTES_MAX + 1);
    CHECK_MEMORY_GOTO(text);
    length = fread(text, 1, PEM_BYTES_MAX, file);
    CHECK_GOTO(length > 0 && length < PEM_BYTES_MAX && memchr(text, '\0', length) == NULL, STATUS_BAD_FORMAT,
               "the file %s for TLS is no PEM file", path);
    text[length] = '\0';
    *out = text;
    text = NULL;
fail:
    free(text);
    fclose(file);
    return status;
}

static enum status start_library(struct http_server *server) {
    enum status status = STATUS_OK;
    const struct http_server_options *options = &server->options;
    char *certificate = NULL;
    char *key = NULL;
    if (options->certificate_file != NULL || options->key_file != NULL) {
        TRY_GOTO(read_pem(options->certificate_file, &certificate));
        TRY_GOTO(read_pem(options->key_file, &key));
    }
    TRY_GOTO(http_io_start(server, certificate, key));
fail:
    free(certificate);
    free(key);
    return status;
}

static enum status start_threads(struct http_server *server) {
    TRY(http_watcher_start(server));
    TRY(http_handlers_start(server));
    return start_library(server);
}

static enum status create(const struct http_server_options *options, struct http_server **out) {
    struct http_server *server = calloc(1, sizeof *server);
    CHECK_MEMORY(server);
    *out = server;
    server->options = *options;
    server->listener.socket = -1;
    server->watch_set = epoll_create1(EPOLL_CLOEXEC);
    server->wake_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&server->mutex, NULL);
    pthread_mutex_init(&server->queue_mutex, NULL);
    pthread_cond_init(&server->queue_changed, NULL);
    pthread_cond_init(&server->quiet_changed, NULL);
    CHECK(server->watch_set >= 0 && server->wake_event >= 0, STATUS_IO,
          "descriptors for the HTTP server cannot be opened: %s", strerror(errno));
    fit_descriptors(&server->options);
    size_t capacity = (size_t)server->options.connection_limit + SPARE_CONNECTIONS;
    server->connections = calloc(capacity, sizeof *server->connections);
    CHECK_MEMORY(server->connections);
    server->connection_capacity = capacity;
    return STATUS_OK;
}

enum status http_server_start(const struct http_server_options *options, struct http_server **out) {
    enum status status = STATUS_OK;
    struct http_server *server = NULL;
    sigset_t all;
    sigset_t before;
    *out = NULL;
    /* Signals are the caller's; its threads inherit the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    TRY_GOTO(create(options, &server));
    *out = server; /* now: a handler may run before this function returns */
    TRY_GOTO(http_listener_open(options, &server->listener));
    server->port = server->listener.port;
    server->has_tls = options->certificate_file != NULL;
    TRY_GOTO(start_threads(server));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return STATUS_OK;
fail:
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    http_server_stop(&server);
    *out = NULL;
    return status;
}

int http_server_port(const struct http_server *server) {
    return server->port;
}

size_t http_server_exchange_count(const struct http_server *server) {
    return atomic_load(&server->exchange_count);
}

void http_server_signal(int event) {
    const uint64_t one = 1;
    /* Fails only if the counter is full, and then the descriptor is readable. */
    ssize_t written = write(event, &one, sizeof one);
    (void)written;
}

void http_server_drain(struct http_server *server) {
    if (!atomic_exchange(&server->is_draining, true)) {
        http_io_quiesce(server);
        http_listener_close(&server->listener);
        http_server_signal(server->wake_event); /* the watcher, for idle connections */
    }
}

/* The library must not be stopped while connections are suspended. */
static void cut_off_all(struct http_server *server) {
    pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < server->connection_capacity; i++) {
        const struct http_connection *connection = &server->connections[i];
        if (connection->is_used && connection->exchange != NULL) {
            http_exchange_cut(connection->exchange);
        }
        if (connection->is_used) {
            shutdown(connection->socket, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&server->mutex);
}

void http_server_stop(struct http_server **server_pointer) {
    struct http_server *server = *server_pointer;
    if (server == NULL) {
        return;
    }
    http_server_drain(server);
    http_handlers_stop(server);
    atomic_store(&server->is_stopping, true);
    http_watcher_stop(server);
    http_io_join(server);
    cut_off_all(server);
    http_io_destroy(server);
    if (server->watch_set >= 0) {
        close(server->watch_set);
    }
    if (server->wake_event >= 0) {
        close(server->wake_event);
    }
    pthread_mutex_destroy(&server->mutex);
    pthread_mutex_destroy(&server->queue_mutex);
    pthread_cond_destroy(&server->queue_changed);
    pthread_cond_destroy(&server->quiet_changed);
    free(server->connections);
    free(server);
    *server_pointer = NULL;
}
