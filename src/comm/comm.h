/*
 * A group of ranks that exchange memory.
 *
 * A communicator is one rank's end of a group. All ranks of a group call the same collectives in the same
 * order with sizes that fit; there is no other way to find out sizes. Data is device memory and ordered with
 * `stream`: an operation starts after the work before it on the stream, and work after it sees what came in.
 * NULL as `stream` stands for host memory. `self`, `threads` and `mpi` wait for the stream and touch the
 * memory as a kernel on the host does; a device that the host cannot reach brings an implementation of its
 * own.
 *
 * Sums are fp32 and go in the adjacent binary tree over ranks, ((0+1)+(2+3))+..., the odd last one going up
 * as it is (tensor/leaves.h, spec parallelism S-3): so the bits do not depend on how many ranks there are, if
 * each contributes a node of the same tree. A rank without work contributes rows of +0.0: these change no sum
 * but -0.0, and that is no sum of leaves.
 *
 * Every wait has a deadline. PEER_LOST names the rank that waits, the operation, the peer and the bytes that
 * were expected; after it a group can only be aborted and destroyed. One thread at a time per communicator;
 * the ends of one group belong to different threads or processes.
 */
#ifndef SLUICE_COMM_COMM_H
#define SLUICE_COMM_COMM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"

struct comm;

enum { COMM_NO_DEADLINE_SECONDS = 1000000000 };

/*
 * What a rank is at, for other threads to read: all its communicators may share one. Zeroed: at nothing.
 * The operation is a static string, NULL while the rank does not wait.
 */
struct comm_watch {
    _Atomic(const char *) operation;
    atomic_int peer;           /* by its number in the group */
    atomic_uint_fast64_t tick; /* of the step; the communicators leave it alone */
};

/* From now on waits are shown in `watch`, which is borrowed; NULL: nowhere. */
void comm_set_watch(struct comm *comm, struct comm_watch *watch);

int comm_rank(const struct comm *comm);
int comm_size(const struct comm *comm);

/* Seconds that an operation or a comm_wait may take from now on; 600 at first, as for a start (spec D-5). */
void comm_set_deadline(struct comm *comm, double seconds);

/* The seconds of the last call, or what was there at first. */
double comm_deadline(const struct comm *comm);

/*
 * Seconds that comm_broadcast_host may wait for the root from now on; 600 at first. Ranks that wait for work
 * have no deadline (COMM_NO_DEADLINE_SECONDS): whoever gives it may have none for days.
 */
void comm_set_idle_deadline(struct comm *comm, double seconds);

/* What the group is called in sentences ("tensor group of stage 1"); cut at 79 bytes. "" at first. */
void comm_set_name(struct comm *comm, const char *name);

/*
 * Frees this rank's end and nulls; NULL inside is allowed. Does not wait for the others. Messages that were
 * not waited for are withdrawn: only a group that lost a peer has such.
 */
void comm_destroy(struct comm **comm);

/*
 * Ends all waits of the group, here and elsewhere, and every operation after them, with PEER_LOST. Any
 * thread. `reason` is in the sentences; the first one counts.
 */
void comm_abort(struct comm *comm, const char *reason);

/* Collective. Returns when all ranks have called it. */
enum status comm_barrier(struct comm *comm);

/*
 * Collective. The worst status of all ranks, the one with the largest code: they agree once per step, so that
 * no one waits for who failed. Ranks with another status get the sentence of the lowest rank that has it.
 */
enum status comm_agree(struct comm *comm, enum status status);

/* Collective. `bytes` of rank `root`'s memory to all; host memory. */
enum status comm_broadcast_host(struct comm *comm, int root, void *memory, size_t bytes);

/*
 * Collective. values[count] becomes the tree's sum over all ranks, on each of them: what comm_gather makes of
 * comm_sum_scatter, bit for bit, however values are dealt out there.
 */
enum status comm_sum(struct comm *comm, struct stream *stream, float *values, int64_t count);

/*
 * Collective. Rows of `width` floats: the tree's sum of rows first[r] to first[r + 1] - 1 goes to rank r, at
 * the beginning of its `out`, which may be values + first[own] * width. first: [size + 1], ascending, equal
 * everywhere.
 */
enum status comm_sum_scatter(struct comm *comm, struct stream *stream, const float *values,
                             const int64_t *first, int64_t width, float *out);

/*
 * Collective. Rank r's bytes go to out + offsets[r], of offsets[r + 1] - offsets[r] bytes, on every rank.
 * offsets: [size + 1], ascending, equal everywhere. `in` may be out + offsets[own].
 */
enum status comm_gather(struct comm *comm, struct stream *stream, const void *in, const size_t *offsets,
                        void *out);

/* A gather or an exchange that is under way. Zeroed: none. */
struct comm_flight {
    void *state;
};

/*
 * Collective. Starts what comm_gather does and returns: the memory is the flight's until comm_finish, offsets
 * are read at once. Other collectives may come in between, flights too: all ranks start and finish them in
 * the same order. comm_finish waits as long as an operation may, from then on, and nulls; a flight of nothing
 * is finished. What is never finished ends with the communicator.
 */
enum status comm_start_gather(struct comm *comm, struct stream *stream, const void *in, const size_t *offsets,
                              void *out, struct comm_flight *flight);

/*
 * The same of an exchange: bytes send_offsets[r] to send_offsets[r + 1] of `in` go to rank r, which puts them
 * where its own receive_offsets say; the sizes of a pair are equal. `in` and `out` do not overlap.
 */
enum status comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                struct comm_flight *flight);

enum status comm_finish(struct comm *comm, struct comm_flight *flight);

/* A message that is on its way. Zeroed: none. */
struct comm_request {
    void *state;
};

/*
 * Starts to send or receive one message and returns; the memory is the request's until comm_wait. Messages
 * between two ranks arrive in the order they were sent. A received size that differs is INTERNAL.
 */
enum status comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                            size_t bytes, struct comm_request *out);
enum status comm_start_receive(struct comm *comm, struct stream *stream, int from, void *memory, size_t bytes,
                               struct comm_request *out);

/*
 * Starts to receive before it is known what comes: a message of at most `room_bytes`, at least 1. The sender
 * need not wait for this rank any more. comm_wait_sized says how many bytes it should have been; another size
 * is INTERNAL.
 */
enum status comm_start_receive_early(struct comm *comm, struct stream *stream, int from, void *memory,
                                     size_t room_bytes, struct comm_request *out);
enum status comm_wait_sized(struct comm *comm, struct comm_request *request, size_t bytes);

/* Takes back a message that was started: nobody will send it, or take it. Zeroes the request. */
void comm_cancel(struct comm *comm, struct comm_request *request);

/* Returns when the message has left or come in; nothing to do for a zeroed request. Zeroes it. */
enum status comm_wait(struct comm *comm, struct comm_request *request);

/* Bytes that this rank has sent in collectives and messages so far, to others only: for tests and reports. */
uint64_t comm_sent_bytes(const struct comm *comm);

/* Collectives whose bytes are counted apart. */
enum comm_traffic {
    COMM_TRAFFIC_SUM, /* comm_sum and comm_sum_scatter */
    COMM_TRAFFIC_GATHER,
    COMM_TRAFFIC_EXCHANGE,
    COMM_TRAFFIC_COUNT,
};

/* The part of comm_sent_bytes that went in collectives of a kind. */
uint64_t comm_sent_bytes_in(const struct comm *comm, enum comm_traffic kind);

/*
 * Sums need host memory beside the values: at most this much in a group of `size` for comm_sum_scatter and
 * comm_sum of `count` values, of which no rank gets more than `share` (comm_sum: count / size rounded up).
 */
size_t comm_sum_scratch_bytes(int size, int64_t count, int64_t share);

/* Has so much ready, so that sums up to it allocate nothing; more is allocated when it is needed first. */
enum status comm_reserve_scratch(struct comm *comm, size_t bytes);

/* A group of one: nothing is moved. */
enum status comm_self_create(struct comm **out);

#endif
