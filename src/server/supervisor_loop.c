/* The supervisor's thread: it alone speaks with the workers, and it is the one that they die with. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/supervisor_internal.h"
#include "server/worker_process.h"

static const double KILLED_SECONDS = 5.0;

static bool has_process(const struct supervisor_slot *slot) {
    return slot->phase == SLOT_STARTING || slot->phase == SLOT_READY;
}

static void clear_caches(struct supervisor *supervisor) {
    const struct wire_record record = {.kind = WIRE_CLEAR};
    for (int i = 0; i < supervisor->options.worker_count && supervisor->is_clearing; i++) {
        if (supervisor->slots[i].phase == SLOT_READY) {
            wire_connection_put(&supervisor->slots[i].connection, &record);
            replica_router_forget(supervisor->router, i);
        }
    }
    supervisor->is_clearing = false;
}

static void flush(struct supervisor *supervisor) {
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        struct supervisor_slot *slot = &supervisor->slots[i];
        if (has_process(slot) && wire_connection_flush(&slot->connection) == STATUS_OUT_OF_MEMORY) {
            supervisor_slot_bury(supervisor, slot, "the front has no memory for what it must be told");
        }
    }
}

/* Milliseconds until something is due without anybody saying so. */
static int next_look(const struct supervisor *supervisor, double now) {
    double wait = supervisor->options.ping_seconds;
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        const struct supervisor_slot *slot = &supervisor->slots[i];
        if (slot->phase == SLOT_DOWN && slot->restart_at - now < wait) {
            wait = slot->restart_at > now ? slot->restart_at - now : 0.0;
        }
    }
    return 1 + (int)(wait * 1000.0);
}

/* Fills in whom to wait for: the event, then the slots that have a process; others are ignored. */
static void fill_polled(const struct supervisor *supervisor, struct pollfd *polled) {
    polled[0] = (struct pollfd){supervisor->event, POLLIN, 0};
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        const struct supervisor_slot *slot = &supervisor->slots[i];
        short wanted = POLLIN;
        if (has_process(slot) && wire_connection_backlog(&slot->connection) > 0) {
            wanted |= POLLOUT;
        }
        polled[1 + i] = (struct pollfd){has_process(slot) ? slot->connection.socket : -1, wanted, 0};
    }
}

static void read_slots(struct supervisor *supervisor, const struct pollfd *polled) {
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        struct supervisor_slot *slot = &supervisor->slots[i];
        if ((polled[1 + i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && has_process(slot)) {
            enum status status = supervisor_slot_read(supervisor, slot);
            if (status != STATUS_OK) {
                /* That the wire is closed says less than how the process ended. */
                supervisor_slot_bury(supervisor, slot,
                                     status == STATUS_PEER_LOST ? NULL : error_last()->message);
            }
        }
    }
}

/* Closing the wire asks a worker to end. */
static void stop_workers(struct supervisor *supervisor) {
    char how[128];
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        wire_connection_deinit(&supervisor->slots[i].connection);
    }
    double deadline = clock_seconds() + supervisor->options.quit_seconds;
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        pid_t pid = supervisor->slots[i].pid;
        if (pid > 0 && !worker_process_reap(pid, deadline - clock_seconds(), how, sizeof how)) {
            worker_process_kill(pid);
            worker_process_reap(pid, KILLED_SECONDS, how, sizeof how);
        }
        supervisor->slots[i].pid = -1;
    }
}

/* All that can be done without waiting. The mutex is held. */
static void work(struct supervisor *supervisor) {
    double now = clock_seconds();
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        supervisor_slot_tick(supervisor, &supervisor->slots[i], now);
    }
    supervisor_take_wishes(supervisor);
    if (supervisor->is_started) {
        clear_caches(supervisor);
        supervisor_dispatch(supervisor, now);
    }
    flush(supervisor);
}

void *supervisor_run(void *context) {
    struct supervisor *supervisor = context;
    struct pollfd polled[1 + SUPERVISOR_WORKERS_MAX];
    pthread_mutex_lock(&supervisor->mutex);
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        supervisor_slot_start(supervisor, &supervisor->slots[i]);
    }
    while (!supervisor->is_closing) {
        work(supervisor);
        fill_polled(supervisor, polled);
        int timeout_ms = next_look(supervisor, clock_seconds());
        pthread_mutex_unlock(&supervisor->mutex);
        int count = poll(polled, 1 + (nfds_t)supervisor->options.worker_count, timeout_ms);
        if (polled[0].revents != 0) {
            uint64_t events;
            ssize_t bytes = read(supervisor->event, &events, sizeof events);
            (void)bytes;
        }
        pthread_mutex_lock(&supervisor->mutex);
        if (count > 0) {
            read_slots(supervisor, polled);
        }
    }
    supervisor_take_wishes(supervisor);
    pthread_mutex_unlock(&supervisor->mutex);
    stop_workers(supervisor);
    return NULL;
}
