#include "engine/tick_trace.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { REPLICAS_MAX = 4096 };

static const char RING_MAGIC[16] = "sluice ticks 1";

/* In memory or in a file, whole. */
struct trace_ring {
    char magic[16];
    uint64_t event_bytes;
    struct trace_owner owner;
    struct trace_place place;
    int64_t capacity;
    _Atomic int64_t count; /* events so far; the last `capacity` are kept */
    struct trace_event events[];
};

struct tick_trace {
    struct trace_tick tick;
    struct trace_ring *ring;
    char *path;     /* NULL: in memory */
    int descriptor; /* of the file, which is locked by it */
    bool is_written;
};

static size_t ring_bytes(int64_t capacity) {
    return sizeof(struct trace_ring) + (size_t)capacity * sizeof(struct trace_event);
}

static bool lock_file(int descriptor) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(descriptor, F_OFD_SETLK, &whole) == 0;
}

/* The file's first bytes as memory; NULL if that cannot be. */
static struct trace_ring *map_file(int descriptor, size_t bytes) {
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static enum status make_trace(const char *path, struct tick_trace **out) {
    struct tick_trace *trace = calloc(1, sizeof *trace);
    CHECK_MEMORY(trace);
    trace->descriptor = -1;
    trace->path = path == NULL ? NULL : strdup(path);
    *out = trace;
    if (path != NULL && trace->path == NULL) {
        tick_trace_destroy(out);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    return STATUS_OK;
}

static void fill_head(struct trace_ring *ring, const struct trace_place *place, int64_t capacity) {
    memcpy(ring->magic, RING_MAGIC, sizeof ring->magic);
    ring->event_bytes = sizeof *ring->events;
    ring->place = *place;
    ring->capacity = capacity;
}

enum status tick_trace_create(const struct trace_place *place, int64_t capacity, struct tick_trace **out) {
    TRY(make_trace(NULL, out));
    (*out)->ring = calloc(1, ring_bytes(capacity));
    if ((*out)->ring == NULL) {
        tick_trace_destroy(out);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    fill_head((*out)->ring, place, capacity);
    return STATUS_OK;
}

/*
 * It gets its name once it is locked: who finds it by that and can lock it knows that nobody records there.
 * All of its room is taken at once: a disk that is full later would end the process that writes to it.
 */
static bool open_ring(struct tick_trace *trace, size_t bytes) {
    char name[4096];
    int length = snprintf(name, sizeof name, "%s.new", trace->path);
    if (length < 0 || (size_t)length >= sizeof name) {
        return false;
    }
    trace->descriptor = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool is_made = trace->descriptor >= 0 && lock_file(trace->descriptor) &&
                   posix_fallocate(trace->descriptor, 0, (off_t)bytes) == 0 &&
                   (trace->ring = map_file(trace->descriptor, bytes)) != NULL &&
                   rename(name, trace->path) == 0;
    if (!is_made && trace->descriptor >= 0) {
        unlink(name);
    }
    return is_made;
}

enum status tick_trace_create_in_file(const struct trace_place *place, const struct trace_owner *owner,
                                      int64_t capacity, const char *path, struct tick_trace **out) {
    TRY(make_trace(path, out));
    if (!open_ring(*out, ring_bytes(capacity))) {
        (*out)->is_written = true;
        tick_trace_destroy(out);
        return tick_trace_create(place, capacity, out);
    }
    fill_head((*out)->ring, place, capacity);
    (*out)->ring->owner = *owner;
    return STATUS_OK;
}

/* Whether a file of so many bytes is a ring of this build. */
static bool is_ring(const struct trace_ring *ring, size_t bytes) {
    return memcmp(ring->magic, RING_MAGIC, sizeof ring->magic) == 0 &&
           ring->event_bytes == sizeof *ring->events && ring->capacity >= 1 &&
           (uint64_t)ring->capacity <= bytes / sizeof *ring->events && ring_bytes(ring->capacity) == bytes &&
           ring->count >= 0;
}

/* Whether all in it is what a recorder writes: damaged files are not to be read beyond what there is. */
static bool is_sound(const struct trace_ring *ring) {
    const struct trace_place *place = &ring->place;
    int64_t kept = ring->count < ring->capacity ? ring->count : ring->capacity;
    bool is_sound =
        place->replica >= 0 && place->replica < REPLICAS_MAX && place->rank >= 0 && place->stage >= -1;
    for (int64_t i = 0; i < kept; i++) {
        const struct trace_event *event = &ring->events[i];
        is_sound = is_sound && (unsigned)event->kind <= TRACE_FEEDBACK_WAIT && isfinite(event->began) &&
                   isfinite(event->ended);
    }
    return is_sound;
}

enum status tick_trace_take_over(const char *path, struct tick_trace **out) {
    struct tick_trace *trace;
    struct stat state;
    *out = NULL;
    TRY(make_trace(path, &trace));
    trace->descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (trace->descriptor < 0 || !lock_file(trace->descriptor) || fstat(trace->descriptor, &state) != 0) {
        tick_trace_destroy(&trace);
        return STATUS_OK;
    }
    size_t bytes = (size_t)state.st_size;
    struct trace_ring *ring = bytes < ring_bytes(1) ? NULL : map_file(trace->descriptor, bytes);
    if (ring == NULL || !is_ring(ring, bytes) || !is_sound(ring)) {
        if (ring != NULL) {
            munmap(ring, bytes);
        }
        unlink(path);
        tick_trace_destroy(&trace);
        return STATUS_OK;
    }
    trace->ring = ring;
    *out = trace;
    return STATUS_OK;
}

struct trace_owner tick_trace_owner(const struct tick_trace *trace) {
    return trace->ring->owner;
}

void tick_trace_set_written(struct tick_trace *trace) {
    if (trace != NULL) {
        trace->is_written = true;
    }
}

void tick_trace_destroy(struct tick_trace **trace_pointer) {
    struct tick_trace *trace = *trace_pointer;
    *trace_pointer = NULL;
    if (trace == NULL) {
        return;
    }
    if (trace->path == NULL) {
        free(trace->ring);
    } else if (trace->ring != NULL) {
        if (trace->is_written || trace->ring->count == 0) {
            unlink(trace->path);
        }
        munmap(trace->ring, ring_bytes(trace->ring->capacity));
    }
    if (trace->descriptor >= 0) {
        close(trace->descriptor);
    }
    free(trace->path);
    free(trace);
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
    if (trace == NULL) {
        return;
    }
    struct trace_ring *ring = trace->ring;
    int64_t count = atomic_load_explicit(&ring->count, memory_order_relaxed);
    ring->events[count % ring->capacity] =
        (struct trace_event){.kind = kind, .tick = trace->tick, .began = began, .ended = clock_seconds()};
    /* An event counts once it is whole, whenever the process is killed. */
    atomic_store_explicit(&ring->count, count + 1, memory_order_release);
}

size_t tick_trace_bytes(const struct tick_trace *trace) {
    return (size_t)trace->ring->capacity * sizeof *trace->ring->events;
}

struct trace_track tick_trace_track(const struct tick_trace *trace) {
    const struct trace_ring *ring = trace->ring;
    bool is_full = ring->count > ring->capacity;
    return (struct trace_track){.place = ring->place,
                                .capacity = ring->capacity,
                                .first = is_full ? ring->count % ring->capacity : 0,
                                .count = is_full ? ring->capacity : ring->count};
}

int64_t trace_track_piece(const struct trace_track *track, int64_t index) {
    int64_t left = track->count - index;
    int64_t to_end = track->capacity - (track->first + index) % track->capacity;
    int64_t count = left < to_end ? left : to_end;
    return count < TRACE_PIECE_EVENTS ? count : TRACE_PIECE_EVENTS;
}

const struct trace_event *tick_trace_piece(const struct tick_trace *trace, int64_t index) {
    struct trace_track track = tick_trace_track(trace);
    return &trace->ring->events[(track.first + index) % track.capacity];
}
