/* One worker's place: process, wire, heartbeat, restarts. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_stats_sum.h"
#include "server/supervisor_internal.h"
#include "server/worker_process.h"

enum { ARENA_BYTES = 16 << 10 };

static const double STEADY_SECONDS = 60.0;  /* up for so long: deaths before do not count any more */
static const double RESTART_SECONDS = 30.0; /* longest wait before a restart */
static const double KILLED_SECONDS = 5.0;   /* for a process that was killed to be gone */
static const double CLOSED_SECONDS = 0.2;   /* for one that has closed the wire */

void supervisor_slot_start(struct supervisor *supervisor, struct supervisor_slot *slot) {
    const struct supervisor_options *options = &supervisor->options;
    int socket = -1;
    slot->phase = SLOT_STARTING;
    slot->started_at = clock_seconds();
    slot->answered_at = slot->started_at;
    slot->pinged_at = slot->started_at;
    slot->is_ping_open = false;
    slot->fatal_status = STATUS_OK;
    snprintf(slot->why, sizeof slot->why, "it is being started");
    enum status status = worker_process_start(options->program, options->arguments, &slot->pid, &socket);
    if (status == STATUS_OK) {
        status = wire_connection_init(&slot->connection, socket);
    }
    if (status != STATUS_OK) {
        slot->fatal_status = status;
        supervisor_slot_bury(supervisor, slot, error_last()->message);
    }
}

static void take_ready(struct supervisor *supervisor, struct supervisor_slot *slot,
                       const struct sluice_engine_facts *facts) {
    slot->facts = *facts;
    slot->phase = SLOT_READY;
    slot->started_at = clock_seconds();
    slot->stepped_at = slot->started_at;
    slot->why[0] = '\0';
    log_write(LOG_INFO, "server", "worker %d (process %d) is ready after %.2f s", slot->index, (int)slot->pid,
              facts->load_seconds);
    pthread_cond_broadcast(&supervisor->started);
}

static void take_stats(struct supervisor_slot *slot, const struct wire_record *record) {
    double now = clock_seconds();
    bool is_idle = record->stats.running_requests + record->stats.waiting_requests == 0;
    if (is_idle || record->stats.steps > slot->stats.steps) {
        slot->stepped_at = now;
    }
    slot->stats = record->stats;
    if (record->id != 0) {
        slot->is_ping_open = false;
        slot->answered_at = now;
    }
}

static enum status take_record(struct supervisor *supervisor, struct supervisor_slot *slot,
                               const struct wire_record *record) {
    switch (record->kind) {
    case WIRE_READY:
        CHECK(slot->phase == SLOT_STARTING, STATUS_BAD_FORMAT, "worker %d is ready twice", slot->index);
        take_ready(supervisor, slot, &record->facts);
        return STATUS_OK;
    case WIRE_UPDATE:
        return supervisor_take_update(supervisor, slot, record);
    case WIRE_STATS:
        take_stats(slot, record);
        return STATUS_OK;
    case WIRE_FATAL:
        slot->fatal_status = record->status == STATUS_OK ? STATUS_INTERNAL : record->status;
        FAIL(slot->fatal_status, "%.*s", (int)record->message.length,
             record->message.length == 0 ? "" : record->message.bytes);
    case WIRE_SUBMIT:
    case WIRE_CANCEL:
    case WIRE_RELEASE:
    case WIRE_CLEAR:
    case WIRE_PING:
    case WIRE_KIND_COUNT:
        break;
    }
    FAIL(STATUS_BAD_FORMAT, "worker %d sends records that only the front sends (kind %d)", slot->index,
         (int)record->kind);
}

static enum status take_frame(struct supervisor *supervisor, struct supervisor_slot *slot,
                              const struct wire_frame *frame) {
    struct wire_record record;
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    enum status status = wire_read(frame, &arena, &record);
    if (status == STATUS_OK) {
        status = take_record(supervisor, slot, &record);
    }
    arena_deinit(&arena);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status supervisor_slot_read(struct supervisor *supervisor, struct supervisor_slot *slot) {
    struct wire_frame frame;
    bool has_frame = false;
    /* What a worker said before it closed counts. */
    enum status end = wire_connection_read(&slot->connection);
    TRY(wire_connection_next(&slot->connection, &frame, &has_frame));
    while (has_frame) {
        TRY(take_frame(supervisor, slot, &frame));
        TRY(wire_connection_next(&slot->connection, &frame, &has_frame));
    }
    return end;
}

static double restart_delay(const struct supervisor *supervisor, const struct supervisor_slot *slot) {
    double delay = supervisor->options.restart_seconds;
    for (int i = 1; i < slot->failures && delay < RESTART_SECONDS; i++) {
        delay *= 2.0;
    }
    return delay < RESTART_SECONDS ? delay : RESTART_SECONDS;
}

static void end_process(struct supervisor_slot *slot, const char *reason) {
    char how[128] = "could not be started";
    /* Who has closed the wire has something to say yet, or is about to end by itself. */
    bool is_gone =
        slot->pid > 0 && reason == NULL && worker_process_reap(slot->pid, CLOSED_SECONDS, how, sizeof how);
    if (slot->pid > 0 && !is_gone) {
        worker_process_kill(slot->pid);
        if (!worker_process_reap(slot->pid, KILLED_SECONDS, how, sizeof how)) {
            snprintf(how, sizeof how, "does not even end when it is killed");
        }
    }
    if (reason == NULL) {
        snprintf(slot->why, sizeof slot->why, "its process %d %s", (int)slot->pid, how);
    } else {
        snprintf(slot->why, sizeof slot->why, "%s", reason);
    }
    slot->pid = -1;
    wire_connection_deinit(&slot->connection);
}

static void note_failed_start(struct supervisor *supervisor, struct supervisor_slot *slot) {
    if (supervisor->start_status == STATUS_OK) {
        supervisor->start_status = slot->fatal_status == STATUS_OK ? STATUS_PEER_LOST : slot->fatal_status;
        snprintf(supervisor->start_message, sizeof supervisor->start_message, "%s%.600s",
                 slot->fatal_status == STATUS_OK ? "a worker did not start: " : "", slot->why);
    }
    slot->phase = SLOT_GIVEN_UP;
    pthread_cond_broadcast(&supervisor->started);
}

void supervisor_slot_bury(struct supervisor *supervisor, struct supervisor_slot *slot, const char *reason) {
    double now = clock_seconds();
    bool was_steady = slot->phase == SLOT_READY && now - slot->started_at > STEADY_SECONDS;
    int32_t request_count = slot->sent.count;
    end_process(slot, reason);
    engine_stats_add_counters(&slot->past, &slot->stats, 1);
    slot->stats = (struct sluice_engine_stats){0};
    slot->failures = was_steady ? 1 : slot->failures + 1;
    if (!supervisor->is_started) {
        note_failed_start(supervisor, slot);
        return;
    }
    replica_router_forget(supervisor->router, slot->index);
    if (slot->failures > supervisor->options.restart_limit) {
        slot->phase = SLOT_GIVEN_UP;
        log_write(LOG_ERROR, "server", "worker %d stays down after %d failures in a row: %s", slot->index,
                  slot->failures, slot->why);
    } else {
        slot->phase = SLOT_DOWN;
        slot->restart_at = now + restart_delay(supervisor, slot);
        log_write(LOG_WARNING, "server", "worker %d is started again in %.1f s with %" PRId32 " requests: %s",
                  slot->index, slot->restart_at - now, request_count, slot->why);
    }
    supervisor_requeue(supervisor, slot, slot->why);
    if (!supervisor_has_hope(supervisor)) {
        supervisor_fail_queue(supervisor, "no worker can answer any more; restart the server");
    }
}

static void put_ping(struct supervisor_slot *slot, double now) {
    struct wire_record record = {.kind = WIRE_PING, .id = 1};
    wire_connection_put(&slot->connection, &record);
    slot->pinged_at = now;
    slot->is_ping_open = true;
}

/* What is wrong with a worker that lives; false: nothing. */
static bool find_hang(const struct supervisor_options *options, const struct supervisor_slot *slot,
                      double now, char *reason, size_t reason_bytes) {
    bool has_work = slot->stats.running_requests + slot->stats.waiting_requests > 0;
    if (slot->is_ping_open && now - slot->answered_at > options->deadline_seconds + options->ping_seconds) {
        snprintf(reason, reason_bytes, "it has not answered for %.1f s", now - slot->answered_at);
        return true;
    }
    if (slot->phase == SLOT_READY && has_work && options->step_seconds > 0.0 &&
        now - slot->stepped_at > options->step_seconds) {
        snprintf(reason, reason_bytes, "it has made no step for %.1f s", now - slot->stepped_at);
        return true;
    }
    if (slot->phase == SLOT_STARTING && options->start_seconds > 0.0 &&
        now - slot->started_at > options->start_seconds) {
        snprintf(reason, reason_bytes, "it was not ready after %.1f s", now - slot->started_at);
        return true;
    }
    return false;
}

void supervisor_slot_tick(struct supervisor *supervisor, struct supervisor_slot *slot, double now) {
    char reason[128];
    if (slot->phase == SLOT_DOWN && now >= slot->restart_at) {
        supervisor->restarts++;
        supervisor_slot_start(supervisor, slot);
        return;
    }
    if (slot->phase != SLOT_STARTING && slot->phase != SLOT_READY) {
        return;
    }
    if (find_hang(&supervisor->options, slot, now, reason, sizeof reason)) {
        supervisor_slot_bury(supervisor, slot, reason);
    } else if (!slot->is_ping_open && now - slot->pinged_at >= supervisor->options.ping_seconds) {
        put_ping(slot, now);
    }
}
