/* Opens listening sockets. A socket file that nobody listens on any more is replaced. */
#include "lib/http_listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static int port_of(int socket_number) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(socket_number, (struct sockaddr *)&address, &length) != 0) {
        return 0;
    }
    if (address.ss_family == AF_INET) {
        return ntohs(((const struct sockaddr_in *)&address)->sin_port);
    }
    return address.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&address)->sin6_port) : 0;
}

/* One address; -1 with errno if it cannot be listened on. */
static int listen_on(const struct addrinfo *address) {
    int socket_number =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    if (socket_number < 0) {
        return -1;
    }
    const int yes = 1;
    setsockopt(socket_number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket_number, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket_number, BACKLOG) == 0) {
        return socket_number;
    }
    int error = errno;
    close(socket_number);
    errno = error;
    return -1;
}

static enum status open_tcp(const struct http_server_options *options, struct http_listener *out) {
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", options->port);
    int problem = getaddrinfo(options->host, service, &hints, &addresses);
    CHECK(problem == 0, STATUS_NOT_FOUND, "the host %s to listen on is not known: %s", options->host,
          gai_strerror(problem));
    int error = EADDRNOTAVAIL;
    for (const struct addrinfo *at = addresses; at != NULL && out->socket < 0; at = at->ai_next) {
        out->socket = listen_on(at);
        error = errno;
    }
    freeaddrinfo(addresses);
    CHECK(out->socket >= 0, STATUS_IO, "%s port %d cannot be listened on: %s%s", options->host, options->port,
          strerror(error), error == EADDRINUSE ? "; another program does, so choose another port" : "");
    out->port = port_of(out->socket);
    return STATUS_OK;
}

/* Whether a file of that name is a socket that nobody listens on. */
static bool is_abandoned(const struct sockaddr_un *address) {
    struct stat file;
    if (stat(address->sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) {
        return false;
    }
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_refused = probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof *address) != 0 &&
                      errno == ECONNREFUSED;
    close(probe);
    return is_refused;
}

static enum status open_unix(const char *path, struct http_listener *out) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof address.sun_path, STATUS_BAD_ARGUMENT,
          "the path of the socket is longer than %zu bytes: %s", sizeof address.sun_path - 1, path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (is_abandoned(&address)) {
        unlink(path);
    }
    const struct addrinfo info = {.ai_family = AF_UNIX,
                                  .ai_socktype = SOCK_STREAM,
                                  .ai_addr = (struct sockaddr *)&address,
                                  .ai_addrlen = sizeof address};
    out->socket = listen_on(&info);
    int error = errno;
    CHECK(out->socket >= 0, STATUS_IO, "the socket %s cannot be listened on: %s", path, strerror(error));
    out->unix_path = strdup(path);
    CHECK_MEMORY(out->unix_path);
    return STATUS_OK;
}

static enum status adopt(int socket_number, struct http_listener *out) {
    int listens = 0;
    socklen_t length = sizeof listens;
    CHECK(getsockopt(socket_number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0,
          STATUS_BAD_ARGUMENT, "descriptor %d, handed over at the start, is no socket that listens",
          socket_number);
    out->socket = socket_number;
    out->port = port_of(socket_number);
    return STATUS_OK;
}

enum status http_listener_open(const struct http_server_options *options, struct http_listener *out) {
    enum status status = STATUS_OK;
    *out = (struct http_listener){.socket = -1};
    if (options->listen_socket >= 0) {
        TRY_GOTO(adopt(options->listen_socket, out));
    } else if (options->unix_path != NULL) {
        TRY_GOTO(open_unix(options->unix_path, out));
    } else {
        TRY_GOTO(open_tcp(options, out));
    }
    return STATUS_OK;
fail:
    http_listener_close(out);
    return status;
}

void http_listener_close(struct http_listener *listener) {
    if (listener->socket >= 0) {
        close(listener->socket);
    }
    if (listener->unix_path != NULL) {
        unlink(listener->unix_path);
        free(listener->unix_path);
    }
    *listener = (struct http_listener){.socket = -1};
}
