/*
 * Collectives without arithmetic, made of messages: every rank sends to every other directly. Sends start
 * first: to start a receive may copy, and the peer should not wait for that.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm_pass.h"

/* The rank `distance` behind, so that not all ranks turn to the same one at once. */
static int rank_behind(const struct comm *comm, int distance) {
    return (comm->rank + comm->size - distance) % comm->size;
}

static int rank_ahead(const struct comm *comm, int distance) {
    return (comm->rank + distance) % comm->size;
}

/* memcpy that allows empty ranges anywhere, and a range onto itself. */
static void copy_bytes(void *to, const void *from, size_t bytes) {
    if (bytes > 0 && to != from) {
        memcpy(to, from, bytes);
    }
}

static enum status start_gather(struct comm_pass *pass, const void *in, const size_t *offsets, void *out) {
    const struct comm *comm = pass->comm;
    char *bytes = out;
    size_t own_bytes = offsets[comm->rank + 1] - offsets[comm->rank];
    for (int distance = 1; distance < comm->size; distance++) {
        int from = rank_behind(comm, distance);
        TRY(comm_pass_send(pass, rank_ahead(comm, distance), in, own_bytes));
        TRY(comm_pass_receive(pass, from, bytes + offsets[from], offsets[from + 1] - offsets[from]));
    }
    copy_bytes(bytes + offsets[comm->rank], in, own_bytes);
    return STATUS_OK;
}

enum status comm_pass_gather(struct comm_pass *pass, const void *in, const size_t *offsets, void *out) {
    TRY(start_gather(pass, in, offsets, out));
    TRY(comm_pass_wait(pass));
    return STATUS_OK;
}

static enum status start_exchange(struct comm_pass *pass, const char *in, const size_t *send_offsets,
                                  char *out, const size_t *receive_offsets) {
    const struct comm *comm = pass->comm;
    for (int distance = 1; distance < comm->size; distance++) {
        int from = rank_behind(comm, distance);
        int to = rank_ahead(comm, distance);
        TRY(comm_pass_send(pass, to, in + send_offsets[to], send_offsets[to + 1] - send_offsets[to]));
        TRY(comm_pass_receive(pass, from, out + receive_offsets[from],
                              receive_offsets[from + 1] - receive_offsets[from]));
    }
    size_t own_bytes = send_offsets[comm->rank + 1] - send_offsets[comm->rank];
    assert(own_bytes == receive_offsets[comm->rank + 1] - receive_offsets[comm->rank]);
    copy_bytes(out + receive_offsets[comm->rank], in + send_offsets[comm->rank], own_bytes);
    return STATUS_OK;
}

/* A flight that could not start has landed. */
static enum status fly(struct comm_pass *pass, enum status status, void **flight) {
    if (status != STATUS_OK) {
        comm_pass_land(pass);
        return error_forward(status, ERROR_HERE);
    }
    *flight = pass;
    return STATUS_OK;
}

enum status comm_start_gather_host(struct comm *comm, struct stream *stream, const void *in,
                                   const size_t *offsets, void *out, void **flight) {
    struct comm_pass *pass;
    TRY(comm_pass_take_off(comm, stream, "comm_gather", &pass));
    return fly(pass, start_gather(pass, in, offsets, out), flight);
}

enum status comm_start_exchange_host(struct comm *comm, struct stream *stream, const void *in,
                                     const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                     void **flight) {
    struct comm_pass *pass;
    TRY(comm_pass_take_off(comm, stream, "comm_exchange", &pass));
    return fly(pass, start_exchange(pass, in, send_offsets, out, receive_offsets), flight);
}

enum status comm_finish_host(struct comm *comm, void *flight) {
    struct comm_pass *pass = flight;
    pass->started = clock_seconds();
    pass->deadline_seconds = comm->deadline_seconds;
    enum status status = comm_pass_wait(pass);
    comm_pass_land(pass);
    TRY(status);
    return STATUS_OK;
}
