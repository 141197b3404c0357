#include "engine/tick_trace.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"

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

size_t tick_trace_bytes(const struct tick_trace *trace) {
    return (size_t)trace->capacity * sizeof *trace->events;
}

struct trace_track tick_trace_track(const struct tick_trace *trace) {
    bool is_full = trace->count > trace->capacity;
    return (struct trace_track){.place = trace->place,
                                .capacity = trace->capacity,
                                .first = is_full ? trace->count % trace->capacity : 0,
                                .count = is_full ? trace->capacity : trace->count};
}

int64_t trace_track_piece(const struct trace_track *track, int64_t index) {
    int64_t left = track->count - index;
    int64_t to_end = track->capacity - (track->first + index) % track->capacity;
    int64_t count = left < to_end ? left : to_end;
    return count < TRACE_PIECE_EVENTS ? count : TRACE_PIECE_EVENTS;
}

const struct trace_event *tick_trace_piece(const struct tick_trace *trace, int64_t index) {
    struct trace_track track = tick_trace_track(trace);
    return &trace->events[(track.first + index) % track.capacity];
}
