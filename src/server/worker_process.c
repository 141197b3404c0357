/* Processes by posix_spawn: the front has threads, and what fork copies of them is of no use. */
#include "server/worker_process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { REAP_NANOSECONDS = 2000000 };

static int set_attributes(posix_spawnattr_t *attributes) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setpgroup(attributes, 0);
    return posix_spawnattr_setflags(attributes,
                                    POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(const char *program, const char *const *arguments, int socket, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int error = posix_spawn_file_actions_adddup2(&actions, socket, WORKER_PROCESS_SOCKET);
    if (error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    }
    if (error == 0) {
        error = set_attributes(&attributes);
    }
    if (error == 0) {
        /* exec takes its words as writable for history's sake only. */
        error =
            posix_spawn(pid, program, &actions, &attributes, (char *const *)(uintptr_t)arguments, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

enum status worker_process_start(const char *program, const char *const *arguments, pid_t *pid, int *socket) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, STATUS_IO,
          "the wire to a worker cannot be made: %s", strerror(errno));
    int error = spawn(program, arguments, ends[1], pid);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        FAIL(STATUS_IO, "the worker %s cannot be started: %s", program, strerror(error));
    }
    *socket = ends[0];
    return STATUS_OK;
}

void worker_process_settle(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

static void describe_end(int wait_status, char *how, size_t how_bytes) {
    if (WIFSIGNALED(wait_status)) {
        snprintf(how, how_bytes, "was killed by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    } else {
        snprintf(how, how_bytes, "ended with code %d", WEXITSTATUS(wait_status));
    }
}

bool worker_process_reap(pid_t pid, double timeout_seconds, char *how, size_t how_bytes) {
    double deadline = clock_seconds() + timeout_seconds;
    int wait_status = 0;
    for (;;) {
        pid_t reaped = waitpid(pid, &wait_status, WNOHANG);
        if (reaped == pid) {
            describe_end(wait_status, how, how_bytes);
            return true;
        }
        if (reaped < 0 && errno != EINTR) {
            snprintf(how, how_bytes, "is gone");
            return true;
        }
        if (clock_seconds() >= deadline) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = REAP_NANOSECONDS}, NULL);
    }
}

void worker_process_kill(pid_t pid) {
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}
