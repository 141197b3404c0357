/*
 * When each rank did what: the timeline of ticks.
 *
 * A rank has a recorder of its own, which only its thread writes: a ring that keeps the last events. Without
 * a recorder (NULL) nothing is measured. Reading is for when the rank does nothing else any more.
 *
 * A ring may lie in a file, as memory that the kernel keeps for it: recording costs the same, and what a
 * process had recorded is there when it was killed. The recorder holds a lock on its file as long as it
 * lives.
 */
#ifndef SLUICE_ENGINE_TICK_TRACE_H
#define SLUICE_ENGINE_TICK_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum trace_event_kind {
    TRACE_PLAN,          /* the leader plans */
    TRACE_AWAIT,         /* has a buffer ready for the boundary of a later tick */
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
    int rank;  /* of all replicas'; after them those that lead from outside */
    int stage; /* -1: leads from outside */
};

/* Whose recorder it is, for who finds its file. */
struct trace_owner {
    int32_t process;
    uint64_t team; /* ranks with equal numbers belong together */
};

/* Keeps the last `capacity` events of a rank, in memory. */
enum status tick_trace_create(const struct trace_place *place, int64_t capacity, struct tick_trace **out);

/* The same in a new file at `path`; in memory if there can be none, or none that can be locked. */
enum status tick_trace_create_in_file(const struct trace_place *place, const struct trace_owner *owner,
                                      int64_t capacity, const char *path, struct tick_trace **out);

/*
 * Takes over the ring of a file whose recorder is no more; *out is NULL if it lives, or if the file is no
 * ring of this build, which is removed then unless it lives.
 */
enum status tick_trace_take_over(const char *path, struct tick_trace **out);

struct trace_owner tick_trace_owner(const struct tick_trace *trace);

/* What was recorded is where it belongs: the file is not needed any more. NULL is allowed. */
void tick_trace_set_written(struct tick_trace *trace);

/* Frees and nulls; NULL inside is allowed. A file stays if it has events that were not written. */
void tick_trace_destroy(struct tick_trace **trace);

/* Nothing of these happens if `trace` is NULL. */
void tick_trace_set_tick(struct tick_trace *trace, struct trace_tick tick);

/* Now, for tick_trace_add; 0 without a trace. */
double tick_trace_now(const struct tick_trace *trace);

/* From `began` until now, of the tick that was set last. */
void tick_trace_add(struct tick_trace *trace, enum trace_event_kind kind, double began);

struct trace_event {
    enum trace_event_kind kind;
    struct trace_tick tick;
    double began; /* on the clock of the rank's host */
    double ended;
};

/* What a recorder holds; sent as it is, between processes of the same build. */
struct trace_track {
    struct trace_place place;
    int64_t capacity;
    int64_t first; /* where the oldest event lies in the ring */
    int64_t count;
};

/* Bytes of the ring. */
size_t tick_trace_bytes(const struct tick_trace *trace);

struct trace_track tick_trace_track(const struct tick_trace *trace);

enum { TRACE_PIECE_EVENTS = 4096 };

/* How many events from number `index` of a track on lie side by side, at most TRACE_PIECE_EVENTS. */
int64_t trace_track_piece(const struct trace_track *track, int64_t index);

/* These events; borrowed until the next one is added. */
const struct trace_event *tick_trace_piece(const struct tick_trace *trace, int64_t index);

#endif
