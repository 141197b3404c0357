/*
 * When each rank did what: the timeline of ticks, as a file that Perfetto and chrome://tracing show.
 *
 * A rank has a recorder of its own, which only its thread writes: a ring that keeps the last events. Without
 * a recorder (NULL) nothing is measured. Writing is for when all ranks have ended.
 */
#ifndef SLUICE_ENGINE_TICK_TRACE_H
#define SLUICE_ENGINE_TICK_TRACE_H

#include <stdint.h>

#include "base/status.h"

enum trace_event_kind {
    TRACE_PLAN,          /* the leader plans */
    TRACE_RECEIVE,       /* waits for the boundary of the stage before */
    TRACE_STEP,          /* layers, and on the last stage the head */
    TRACE_SEND_WAIT,     /* waits until the buffer that the step works in has been sent */
    TRACE_SEND,          /* hands the boundary on, and does not wait */
    TRACE_CHOOSE,        /* tokens */
    TRACE_DRAFT,         /* the draft layer */
    TRACE_FEEDBACK_WAIT, /* the leader waits for what was chosen */
};

/* What the events that follow are of. */
struct trace_tick {
    uint64_t number;
    int32_t group;
    int64_t rows;
};

struct tick_trace;

/* Whose events: each replica is a process of the timeline, its ranks are threads of it. */
struct trace_place {
    int replica;
    int rank; /* of all replicas' */
    int stage;
};

/* Keeps the last `capacity` events of a rank. */
enum status tick_trace_create(const struct trace_place *place, int64_t capacity, struct tick_trace **out);

/* Frees and nulls; NULL inside is allowed. */
void tick_trace_destroy(struct tick_trace **trace);

/* Nothing of these happens if `trace` is NULL. */
void tick_trace_set_tick(struct tick_trace *trace, struct trace_tick tick);

/* Now, for tick_trace_add; 0 without a trace. */
double tick_trace_now(const struct tick_trace *trace);

/* From `began` until now, of the tick that was set last. */
void tick_trace_add(struct tick_trace *trace, enum trace_event_kind kind, double began);

/*
 * Writes one track for each of `count` recorders, replica after replica, that is not NULL: complete events in
 * microseconds on this host's monotonic clock. IO names the file.
 */
enum status tick_trace_write(const char *path, struct tick_trace *const *traces, int count);

/* The same for who closes and cannot fail any more: a line in the log says what went wrong. */
void tick_trace_write_or_warn(const char *path, struct tick_trace *const *traces, int count);

#endif
