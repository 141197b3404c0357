/* Chrome's trace event format: {"traceEvents": [{"ph": "X", "ts", "dur", ...}]}, names of tracks as "M". */
#include "engine/tick_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

struct trace_event {
    enum trace_event_kind kind;
    struct trace_tick tick;
    double began;
    double ended;
};

struct tick_trace {
    struct trace_place place;
    int64_t capacity;
    int64_t count; /* events so far; the last `capacity` are kept */
    struct trace_tick tick;
    struct trace_event *events; /* a ring */
};

enum status tick_trace_create(const struct trace_place *place, int64_t capacity, struct tick_trace **out) {
    enum status status = STATUS_OK;
    struct tick_trace *trace = calloc(1, sizeof *trace);
    CHECK_MEMORY(trace);
    *trace = (struct tick_trace){.place = *place, .capacity = capacity};
    trace->events = calloc((size_t)capacity, sizeof *trace->events);
    CHECK_MEMORY_GOTO(trace->events);
    *out = trace;
    return STATUS_OK;
fail:
    tick_trace_destroy(&trace);
    return status;
}

void tick_trace_destroy(struct tick_trace **trace) {
    if (*trace != NULL) {
        free((*trace)->events);
        free(*trace);
        *trace = NULL;
    }
}

void tick_trace_set_tick(struct tick_trace *trace, struct trace_tick tick) {
    if (trace != NULL) {
        trace->tick = tick;
    }
}

double tick_trace_now(const struct tick_trace *trace) {
    return trace == NULL ? 0.0 : clock_seconds();
}

void tick_trace_add(struct tick_trace *trace, enum trace_event_kind kind, double began) {
    if (trace != NULL) {
        trace->events[trace->count++ % trace->capacity] =
            (struct trace_event){.kind = kind, .tick = trace->tick, .began = began, .ended = clock_seconds()};
    }
}

static void write_event(FILE *file, const struct tick_trace *trace, const struct trace_event *event) {
    static const char *const names[] = {
        [TRACE_PLAN] = "plan",   [TRACE_RECEIVE] = "receive-wait",
        [TRACE_STEP] = "step",   [TRACE_SEND_WAIT] = "send-wait",
        [TRACE_SEND] = "send",   [TRACE_CHOOSE] = "choose",
        [TRACE_DRAFT] = "draft", [TRACE_FEEDBACK_WAIT] = "feedback-wait",
    };
    fprintf(file,
            ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, "
            "\"args\": {\"tick\": %" PRIu64 ", \"group\": %d, \"rows\": %" PRId64 "}}",
            names[event->kind], trace->place.replica, trace->place.rank, event->began * 1e6,
            (event->ended - event->began) * 1e6, event->tick.number, event->tick.group, event->tick.rows);
}

static void write_track(FILE *file, const struct tick_trace *trace) {
    int64_t first = trace->count > trace->capacity ? trace->count - trace->capacity : 0;
    fprintf(file,
            ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, "
            "\"args\": {\"name\": \"rank %d, stage %d\"}}",
            trace->place.replica, trace->place.rank, trace->place.rank, trace->place.stage);
    for (int64_t i = first; i < trace->count; i++) {
        write_event(file, trace, &trace->events[i % trace->capacity]);
    }
}

static void write_replica_name(FILE *file, int replica) {
    fprintf(file,
            "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"replica %d\"}}",
            replica, replica);
}

enum status tick_trace_write(const char *path, struct tick_trace *const *traces, int count) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL, STATUS_IO, "the trace cannot be written to %s: %s", path, strerror(errno));
    int named = 0;
    fprintf(file, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    write_replica_name(file, 0);
    for (int i = 0; i < count; i++) {
        if (traces[i] == NULL) {
            continue;
        }
        if (traces[i]->place.replica != named) {
            named = traces[i]->place.replica;
            fprintf(file, ",\n");
            write_replica_name(file, named);
        }
        write_track(file, traces[i]);
    }
    fprintf(file, "\n]}\n");
    bool is_written = ferror(file) == 0;
    is_written &= fclose(file) == 0;
    CHECK(is_written, STATUS_IO, "the trace in %s is not complete: is the disk full?", path);
    return STATUS_OK;
}

void tick_trace_write_or_warn(const char *path, struct tick_trace *const *traces, int count) {
    if (tick_trace_write(path, traces, count) != STATUS_OK) {
        log_write(LOG_WARNING, "engine", "%s", error_last()->message);
    }
}
