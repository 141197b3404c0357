/* By the manual pages sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3). */
#include "cli/service_manager.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_SOCKET = 3 };

/* A variable that names a process names this one. */
static bool is_for_us(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL && strtol(text, NULL, 10) == (long)getpid();
}

enum status service_manager_take_socket(int *out) {
    const char *count_text = getenv("LISTEN_FDS");
    long count = count_text == NULL || !is_for_us("LISTEN_PID") ? 0 : strtol(count_text, NULL, 10);
    *out = -1;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    CHECK(count <= 1, STATUS_USAGE, "the service manager hands over %ld sockets; one is served", count);
    if (count == 1) {
        fcntl(FIRST_SOCKET, F_SETFD, FD_CLOEXEC);
        *out = FIRST_SOCKET;
    }
    return STATUS_OK;
}

void service_manager_tell(const char *words) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path == NULL ? 0 : strlen(path);
    if (length < 2 || length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* a name that is not in the file system */
    }
    int channel = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (channel >= 0) {
        socklen_t address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
        ssize_t sent = sendto(channel, words, strlen(words), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                              address_length);
        (void)sent;
        close(channel);
    }
}

double service_manager_watchdog_seconds(void) {
    const char *text = getenv("WATCHDOG_USEC");
    bool is_wanted = text != NULL && (getenv("WATCHDOG_PID") == NULL || is_for_us("WATCHDOG_PID"));
    double seconds = is_wanted ? strtod(text, NULL) / 1e6 : 0.0;
    return seconds > 0.0 ? seconds : 0.0;
}
