/* Addresses are "NAME" or "NAME HOST PORT": the name of the abstract socket, and where else to connect. */
#include "launch/control_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/hash.h"

enum { BACKLOG = 128, SEND_SECONDS = 5, NAME_BYTES = 48, UNHEARD_MILLISECONDS = 10000 };

/* A rank reports all the time: if nothing is acknowledged, its launcher or the network is gone. */
void control_socket_prepare(int file) {
    struct timeval patience = {.tv_sec = SEND_SECONDS};
    unsigned unheard = UNHEARD_MILLISECONDS;
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(file, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard, sizeof unheard); /* no matter on this host */
}

static socklen_t make_local(const char *name, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* A name that begins with a zero byte is no file. */
    snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static enum status listen_at(int family, const struct sockaddr *address, socklen_t length, int *out) {
    int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(file >= 0, STATUS_IO, "a control socket cannot be made: %s", strerror(errno));
    if (bind(file, address, length) != 0 || listen(file, BACKLOG) != 0) {
        int error = errno;
        close(file);
        FAIL(STATUS_IO, "the job's control socket cannot listen: %s", strerror(error));
    }
    *out = file;
    return STATUS_OK;
}

static enum status listen_on_network(const char *text, int *out, unsigned *port) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    CHECK(inet_pton(AF_INET, text, &address.sin_addr) == 1, STATUS_USAGE, "%s is no IPv4 address", text);
    TRY(listen_at(AF_INET, (const struct sockaddr *)&address, length, out));
    CHECK(getsockname(*out, (struct sockaddr *)&address, &length) == 0, STATUS_IO,
          "the control socket's port cannot be found: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return STATUS_OK;
}

enum status control_socket_listen(const char *network_address, int listeners[2],
                                  char address[CONTROL_ADDRESS_BYTES]) {
    uint64_t number;
    char name[NAME_BYTES];
    struct sockaddr_un local;
    TRY(hash_random_bytes(&number, sizeof number));
    snprintf(name, sizeof name, "sluice-job-%d-%016llx", (int)getpid(), (unsigned long long)number);
    socklen_t length = make_local(name, &local);
    TRY(listen_at(AF_UNIX, (const struct sockaddr *)&local, length, &listeners[0]));
    snprintf(address, CONTROL_ADDRESS_BYTES, "%s", name);
    if (network_address != NULL) {
        unsigned port = 0;
        TRY(listen_on_network(network_address, &listeners[1], &port));
        snprintf(address, CONTROL_ADDRESS_BYTES, "%s %s %u", name, network_address, port);
    }
    return STATUS_OK;
}

static int connect_to(int family, const struct sockaddr *address, socklen_t length) {
    int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && connect(file, address, length) != 0) {
        close(file);
        file = -1;
    }
    return file;
}

enum status control_socket_connect(const char *address, int *socket_out) {
    char name[NAME_BYTES];
    char host[INET_ADDRSTRLEN] = "";
    unsigned port = 0;
    struct sockaddr_un local;
    CHECK(sscanf(address, "%47s %15s %u", name, host, &port) >= 1, STATUS_BAD_FORMAT,
          "\"%s\" is no address of a job", address);
    socklen_t length = make_local(name, &local);
    int file = connect_to(AF_UNIX, (const struct sockaddr *)&local, length);
    struct sockaddr_in remote = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (file < 0 && inet_pton(AF_INET, host, &remote.sin_addr) == 1) {
        file = connect_to(AF_INET, (const struct sockaddr *)&remote, sizeof remote);
    }
    CHECK(file >= 0, STATUS_PEER_LOST,
          "nobody listens at the job's address (%s): %s; has the launcher ended, or does a firewall forbid "
          "the port?",
          address, strerror(errno));
    control_socket_prepare(file);
    *socket_out = file;
    return STATUS_OK;
}

int control_socket_peer_process(int file) {
    struct ucred peer = {.pid = 0};
    socklen_t length = sizeof peer;
    struct sockaddr_storage own;
    socklen_t own_length = sizeof own;
    bool is_local = getsockname(file, (struct sockaddr *)&own, &own_length) == 0 && own.ss_family == AF_UNIX;
    return is_local && getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? (int)peer.pid : 0;
}

/* "10.0.0.0/24" */
static enum status parse_network(const char *text, uint32_t *address, uint32_t *mask) {
    char host[INET_ADDRSTRLEN];
    struct in_addr parsed;
    unsigned bits = 0;
    CHECK(sscanf(text, "%15[0-9.]/%u", host, &bits) == 2 && inet_pton(AF_INET, host, &parsed) == 1 &&
              bits >= 1 && bits <= 32,
          STATUS_USAGE, "--rank-network takes a network such as 10.0.0.0/24, not \"%s\"", text);
    *address = ntohl(parsed.s_addr);
    *mask = (uint32_t)(UINT64_C(0xffffffff) << (32 - bits));
    return STATUS_OK;
}

enum status control_socket_own_address(const char *network, char address[64]) {
    uint32_t wanted;
    uint32_t mask;
    struct ifaddrs *all = NULL;
    TRY(parse_network(network, &wanted, &mask));
    CHECK(getifaddrs(&all) == 0, STATUS_IO, "the network's interfaces cannot be listed: %s", strerror(errno));
    address[0] = '\0';
    for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
        struct sockaddr_in own;
        if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET) {
            continue;
        }
        memcpy(&own, each->ifa_addr, sizeof own);
        if (((ntohl(own.sin_addr.s_addr) ^ wanted) & mask) == 0) {
            inet_ntop(AF_INET, &own.sin_addr, address, 64);
        }
    }
    freeifaddrs(all);
    CHECK(address[0] != '\0', STATUS_USAGE, "this host has no address in the network %s of --rank-network",
          network);
    return STATUS_OK;
}
