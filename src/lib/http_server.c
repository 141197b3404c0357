/*
 * Start, drain and stop.
 *
 * The library (libmicrohttpd) reads requests and sends replies on its own threads. While a handler works, its
 * connection is suspended; a reply's bytes wait in the exchange until the library asks for them. A watcher
 * sees what the library does not: clients that leave meanwhile, and deadlines.
 */
#include "lib/http_server.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/http_listen.h"
#include "lib/http_server_impl.h"

enum {
    SPARE_CONNECTIONS = 64,   /* over the limit: they get a refusal */
    OTHER_DESCRIPTORS = 64,   /* of the program, besides connections */
    REPLY_HEAD_BYTES = 16384, /* beside a request's head, in the library's memory of a connection */
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

static void log_library(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void log_library(void *context, const char *format, va_list arguments) {
    (void)context;
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    log_write(LOG_DEBUG, "http", "%s", line);
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

static struct MHD_Daemon *start_library(struct http_server *server, char *certificate, char *key) {
    const struct http_server_options *options = &server->options;
    struct MHD_OptionItem items[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)log_library, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)http_connection_notify, server},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)http_connection_open_request, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)http_connection_complete, server},
        {MHD_OPTION_LISTEN_SOCKET, server->listener.socket, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)server->connection_capacity, NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->connections_per_address, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)(options->header_limit + REPLY_HEAD_BYTES), NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {options->io_thread_count > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
         options->io_thread_count, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem tls_items[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG | (certificate == NULL ? 0 : MHD_USE_TLS);
    if (certificate == NULL) {
        tls_items[0].option = MHD_OPTION_END;
    }
    return MHD_start_daemon(flags, 0, NULL, NULL, http_connection_take, server, MHD_OPTION_ARRAY, tls_items,
                            MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

static enum status start_daemon(struct http_server *server) {
    enum status status = STATUS_OK;
    const struct http_server_options *options = &server->options;
    char *certificate = NULL;
    char *key = NULL;
    if (options->certificate_file != NULL || options->key_file != NULL) {
        TRY_GOTO(read_pem(options->certificate_file, &certificate));
        TRY_GOTO(read_pem(options->key_file, &key));
    }
    server->daemon = start_library(server, certificate, key);
    CHECK_GOTO(server->daemon != NULL, STATUS_IO, "the HTTP server does not start%s",
               certificate == NULL ? "" : "; do the certificate and the key belong together?");
fail:
    free(certificate);
    free(key);
    return status;
}

static enum status start_threads(struct http_server *server) {
    TRY(http_watcher_start(server));
    TRY(http_handlers_start(server));
    return start_daemon(server);
}

static enum status create(const struct http_server_options *options, struct http_server **out) {
    struct http_server *server = calloc(1, sizeof *server);
    CHECK_MEMORY(server);
    *out = server;
    server->options = *options;
    server->listener.socket = -1;
    server->watch_set = -1;
    server->wake_event = -1;
    pthread_mutex_init(&server->mutex, NULL);
    pthread_mutex_init(&server->queue_mutex, NULL);
    pthread_cond_init(&server->queue_changed, NULL);
    fit_descriptors(&server->options);
    server->connection_capacity = (size_t)server->options.connection_limit + SPARE_CONNECTIONS;
    server->connections = calloc(server->connection_capacity, sizeof *server->connections);
    CHECK_MEMORY(server->connections);
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

void http_server_drain(struct http_server *server) {
    if (!atomic_exchange(&server->is_draining, true) && server->daemon != NULL) {
        MHD_quiesce_daemon(server->daemon);
        http_listener_close(&server->listener);
        http_watcher_wake(server);
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
    if (server->daemon != NULL) {
        cut_off_all(server);
        MHD_stop_daemon(server->daemon);
    }
    http_listener_close(&server->listener);
    if (server->watch_set >= 0) {
        close(server->watch_set);
    }
    if (server->wake_event >= 0) {
        close(server->wake_event);
    }
    pthread_mutex_destroy(&server->mutex);
    pthread_mutex_destroy(&server->queue_mutex);
    pthread_cond_destroy(&server->queue_changed);
    free(server->connections);
    free(server);
    *server_pointer = NULL;
}
