/* The best of a few tries counts: what disturbs a message only makes it slower. */
#include "engine/job_links.h"

#include <stdlib.h>

#include "base/clock.h"

enum { TRIES = 3, BYTES_FIRST = 64 << 10, BYTES_MOST = 8 << 20, BYTES_GROWTH = 8 };

static const double LONG_ENOUGH_SECONDS = 0.01;            /* to tell a link's speed from its latency */
static const double SLOW_BYTES_PER_SECOND = 1e9 / 8 * 0.8; /* one Gbit/s, less what headers take */

static enum status pass(struct comm *world, bool is_send, int peer, void *memory, size_t bytes) {
    struct comm_request request;
    TRY(is_send ? comm_start_send(world, NULL, peer, memory, bytes, &request)
                : comm_start_receive(world, NULL, peer, memory, bytes, &request));
    return comm_wait(world, &request);
}

/* `out` bytes there and `back` bytes back, as seen by who begins. */
static enum status go_and_come(struct comm *world, bool begins, int peer, uint8_t *memory, size_t out,
                               size_t back, double *seconds) {
    double started = clock_seconds();
    TRY(pass(world, begins, peer, memory, out));
    TRY(pass(world, !begins, peer, memory, back));
    *seconds = clock_seconds() - started;
    return STATUS_OK;
}

static enum status find_least(struct comm *world, bool begins, int peer, uint8_t *memory, size_t out,
                              size_t back, double *least) {
    for (int i = 0; i < TRIES; i++) {
        double seconds = 0;
        TRY(go_and_come(world, begins, peer, memory, out, back, &seconds));
        *least = i == 0 || seconds < *least ? seconds : *least;
    }
    return STATUS_OK;
}

/* Both ends call this; only who begins learns something. Sizes grow until a message takes long enough. */
static enum status measure_link(struct comm *world, bool begins, int peer, uint8_t *memory,
                                struct job_link *link) {
    double round_trip = 0;
    int64_t bytes = BYTES_FIRST;
    TRY(find_least(world, begins, peer, memory, 1, 1, &round_trip));
    link->latency_seconds = round_trip / 2;
    while (bytes > 0) {
        double there = 0;
        double back = 0;
        TRY(find_least(world, begins, peer, memory, (size_t)bytes, 1, &there));
        TRY(find_least(world, begins, peer, memory, 1, (size_t)bytes, &back));
        double slower = (there > back ? there : back) - round_trip;
        link->bytes_per_second = (double)bytes / (slower > 1e-9 ? slower : 1e-9);
        bytes = slower >= LONG_ENOUGH_SECONDS || bytes == BYTES_MOST ? 0 : bytes * BYTES_GROWTH;
        bytes = bytes > BYTES_MOST ? BYTES_MOST : bytes;
        TRY(pass(world, begins, peer, &bytes, sizeof bytes));
    }
    return STATUS_OK;
}

/* The first rank of the host after that of `rank`, which is a first one itself; around. */
static int next_first(const int32_t *host_numbers, int size, int rank) {
    int next = rank;
    do {
        next = (next + 1) % size;
    } while (host_numbers[next] != next);
    return next;
}

static enum status measure_all(struct comm *world, const int32_t *host_numbers, uint8_t *memory,
                               struct job_link *own) {
    int size = comm_size(world);
    for (int rank = 0; rank < size; rank++) {
        int peer = host_numbers[rank] == rank ? next_first(host_numbers, size, rank) : rank;
        /* Two hosts have one link. */
        if (peer == rank || (peer == 0 && next_first(host_numbers, size, 0) == rank)) {
            continue;
        }
        struct job_link link = {.rank = rank, .peer = peer};
        if (comm_rank(world) == rank) {
            TRY(measure_link(world, true, peer, memory, &link));
            *own = link;
        } else if (comm_rank(world) == peer) {
            TRY(measure_link(world, false, rank, memory, &link));
        }
        TRY(comm_barrier(world));
    }
    return STATUS_OK;
}

enum status job_links_measure(struct comm *world, const int32_t *host_numbers, struct job_link *links) {
    enum status status = STATUS_OK;
    int size = comm_size(world);
    struct job_link own = {.rank = -1};
    size_t *offsets = calloc((size_t)size + 1, sizeof *offsets);
    uint8_t *memory = calloc(1, BYTES_MOST);
    CHECK_MEMORY_GOTO(offsets);
    CHECK_MEMORY_GOTO(memory);
    for (int i = 0; i <= size; i++) {
        offsets[i] = (size_t)i * sizeof own;
    }
    TRY_GOTO(measure_all(world, host_numbers, memory, &own));
    TRY_GOTO(comm_gather(world, NULL, &own, offsets, links));
fail:
    free(offsets);
    free(memory);
    return status;
}

static bool has_host(const int32_t *host_numbers, int first, int count, int host) {
    bool has = false;
    for (int rank = first; rank < first + count; rank++) {
        has = has || host_numbers[rank] == host;
    }
    return has;
}

struct job_link job_links_slowest(const struct job_link *links, int size, const int32_t *host_numbers,
                                  int first, int count) {
    struct job_link of_all = {.rank = -1};
    struct job_link between = {.rank = -1};
    for (int i = 0; i < size; i++) {
        const struct job_link *link = &links[i];
        if (link->rank < 0) {
            continue;
        }
        if (of_all.rank < 0 || link->bytes_per_second < of_all.bytes_per_second) {
            of_all = *link;
        }
        if (has_host(host_numbers, first, count, link->rank) &&
            has_host(host_numbers, first, count, link->peer) &&
            (between.rank < 0 || link->bytes_per_second < between.bytes_per_second)) {
            between = *link;
        }
    }
    return between.rank >= 0 ? between : of_all;
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of several links the middle one; one link alone is only measured by the fixed limit. */
static double find_slow_limit(const struct job_link *links, int count) {
    double *speeds = calloc((size_t)count, sizeof *speeds);
    int link_count = 0;
    for (int i = 0; i < count && speeds != NULL; i++) {
        if (links[i].rank >= 0) {
            speeds[link_count++] = links[i].bytes_per_second;
        }
    }
    double limit = SLOW_BYTES_PER_SECOND;
    if (link_count > 0) {
        qsort(speeds, (size_t)link_count, sizeof *speeds, compare_numbers);
        double half = speeds[link_count / 2] / 2;
        limit = half > limit ? half : limit;
    }
    free(speeds);
    return limit;
}

void job_links_describe_slow(const struct job_link *links, int count, const char *const *names,
                             struct string_buffer *out) {
    double limit = find_slow_limit(links, count);
    for (int i = 0; i < count; i++) {
        const struct job_link *link = &links[i];
        if (link->rank >= 0 && link->bytes_per_second < limit) {
            string_buffer_append_format(
                out,
                "the link between hosts %s (rank %d) and %s (rank %d) is slow: %.3g MB/s, and %.3g ms for a "
                "message; all ranks wait for it: see that --rank-network names the fastest network they "
                "share\n",
                names[link->rank], link->rank, names[link->peer], link->peer, link->bytes_per_second / 1e6,
                link->latency_seconds * 1e3);
        }
    }
}
