/*
 * Threads that run the library, each with an instance of its own on the same listening socket.
 *
 * The library would start threads by itself, but its own loop (0.9.75) asks for more events, without a time
 * limit, whenever it got a full batch of 128: with as many clients ready at once it sleeps over them. Run
 * from outside it never waits.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/http_server_impl.h"

enum { REPLY_HEAD_BYTES = 16384 /* beside a request's head, in the library's memory of a connection */ };

static void log_library(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void log_library(void *context, const char *format, va_list arguments) {
    (void)context;
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    log_write(LOG_DEBUG, "http", "%s", line);
}

static struct MHD_Daemon *create_daemon(struct http_io *io, char *certificate, char *key) {
    const struct http_server *server = io->server;
    const struct http_server_options *options = &server->options;
    struct MHD_OptionItem items[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)log_library, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)http_connection_notify, io},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)http_connection_open_request, io},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)http_connection_complete, io},
        {MHD_OPTION_LISTEN_SOCKET, server->listener.socket, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)server->connection_capacity, NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->connections_per_address, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)(options->header_limit + REPLY_HEAD_BYTES), NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem tls_items[] = {
        {certificate == NULL ? MHD_OPTION_END : MHD_OPTION_HTTPS_MEM_CERT, 0, certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (certificate == NULL ? 0 : MHD_USE_TLS);
    return MHD_start_daemon(flags, 0, NULL, NULL, http_connection_take, io, MHD_OPTION_ARRAY, tls_items,
                            MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

/* How long the library may be left alone; -1: until something happens. */
static int wait_ms(struct MHD_Daemon *daemon) {
    enum { WAIT_MS_MAX = 60000 };
    MHD_UNSIGNED_LONG_LONG wanted;
    if (MHD_get_timeout(daemon, &wanted) != MHD_YES) {
        return -1;
    }
    return wanted < WAIT_MS_MAX ? (int)wanted : WAIT_MS_MAX;
}

/* Takes no more connections. On the daemon's own thread, where nothing of it is under way. */
static void quiesce(struct http_server *server, struct http_io *io) {
    MHD_quiesce_daemon(io->daemon);
    io->is_quiet = true;
    pthread_mutex_lock(&server->mutex);
    server->quiet_count++;
    pthread_cond_broadcast(&server->quiet_changed);
    pthread_mutex_unlock(&server->mutex);
}

static void *run(void *context) {
    struct http_io *io = context;
    struct http_server *server = io->server;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(io->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    while (!atomic_load(&server->is_stopping)) {
        MHD_run(io->daemon); /* before the first wait too: it listens from then on */
        struct pollfd wanted[] = {{.fd = info->epoll_fd, .events = POLLIN},
                                  {.fd = io->wake_event, .events = POLLIN}};
        poll(wanted, sizeof wanted / sizeof wanted[0], wait_ms(io->daemon));
        uint64_t wakes;
        ssize_t taken = read(io->wake_event, &wakes, sizeof wakes);
        (void)taken; /* empties the counter; there may be nothing in it */
        if (!io->is_quiet && atomic_load(&server->is_draining)) {
            quiesce(server, io);
        }
    }
    return NULL;
}

enum status http_io_start(struct http_server *server, char *certificate, char *key) {
    size_t wanted = (size_t)server->options.io_thread_count;
    server->ios = calloc(wanted, sizeof *server->ios);
    CHECK_MEMORY(server->ios);
    while (server->io_count < wanted) {
        struct http_io *io = &server->ios[server->io_count];
        io->server = server;
        io->wake_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        CHECK(io->wake_event >= 0, STATUS_IO, "a descriptor for the HTTP server cannot be opened: %s",
              strerror(errno));
        server->io_count++;
        io->daemon = create_daemon(io, certificate, key);
        CHECK(io->daemon != NULL, STATUS_IO, "the HTTP server does not start%s",
              certificate == NULL ? "" : "; do the certificate and the key belong together?");
        CHECK(pthread_create(&io->thread, NULL, run, io) == 0, STATUS_OUT_OF_MEMORY,
              "a thread for the HTTP server cannot be started");
        io->has_thread = true;
    }
    return STATUS_OK;
}

void http_io_quiesce(struct http_server *server) {
    size_t running = 0;
    for (size_t i = 0; i < server->io_count; i++) {
        running += server->ios[i].has_thread;
        http_server_signal(server->ios[i].wake_event);
    }
    pthread_mutex_lock(&server->mutex);
    while (server->quiet_count < running) {
        pthread_cond_wait(&server->quiet_changed, &server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
}

void http_io_join(struct http_server *server) {
    for (size_t i = 0; i < server->io_count; i++) {
        if (server->ios[i].has_thread) {
            http_server_signal(server->ios[i].wake_event);
            pthread_join(server->ios[i].thread, NULL);
        }
    }
}

void http_io_destroy(struct http_server *server) {
    for (size_t i = 0; i < server->io_count; i++) {
        struct http_io *io = &server->ios[i];
        if (io->daemon != NULL && !io->is_quiet) {
            /* Or else it would close the socket, which is the listener's. */
            MHD_quiesce_daemon(io->daemon);
        }
        if (io->daemon != NULL) {
            MHD_stop_daemon(io->daemon);
        }
        close(io->wake_event);
    }
    free(server->ios);
    server->ios = NULL;
    server->io_count = 0;
}
