/* Messages, their sentences when they fail, and what all implementations keep in the same way. */
#include "comm/comm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm_pass.h"
#include "device/device_impl.h"

static const double first_deadline_seconds = 600;

enum { SCRATCH_ALIGNMENT = 64 };

enum status comm_init(struct comm *comm, const struct comm_impl *impl, int rank, int size) {
    comm->impl = impl;
    comm->rank = rank;
    comm->size = size;
    comm->deadline_seconds = first_deadline_seconds;
    comm->idle_seconds = first_deadline_seconds;
    comm->transport_error = "";
    atomic_init(&comm->abort_state, 0);
    comm->shares = calloc((size_t)size + 1, sizeof *comm->shares);
    CHECK_MEMORY(comm->shares);
    comm->offsets = calloc((size_t)size + 1, sizeof *comm->offsets);
    CHECK_MEMORY(comm->offsets);
    return STATUS_OK;
}

void comm_deinit(struct comm *comm) {
    for (struct comm_message *message = comm->owned; message != NULL;) {
        struct comm_message *next = message->next_owned;
        free(message);
        message = next;
    }
    for (struct comm_pass *flight = comm->flights; flight != NULL;) {
        struct comm_pass *next = flight->next_flight;
        free(flight);
        flight = next;
    }
    free(comm->scratch);
    free(comm->shares);
    free(comm->offsets);
}

int comm_rank(const struct comm *comm) {
    return comm->rank;
}

int comm_size(const struct comm *comm) {
    return comm->size;
}

void comm_set_deadline(struct comm *comm, double seconds) {
    comm->deadline_seconds = seconds;
}

double comm_deadline(const struct comm *comm) {
    return comm->deadline_seconds;
}

void comm_set_idle_deadline(struct comm *comm, double seconds) {
    comm->idle_seconds = seconds;
}

void comm_set_watch(struct comm *comm, struct comm_watch *watch) {
    comm->watch = watch;
}

void comm_set_name(struct comm *comm, const char *name) {
    snprintf(comm->name, sizeof comm->name, "%s", name);
}

uint64_t comm_sent_bytes(const struct comm *comm) {
    return comm->sent_bytes;
}

uint64_t comm_sent_bytes_in(const struct comm *comm, enum comm_traffic kind) {
    return comm->sent_bytes_in[kind];
}

void comm_destroy(struct comm **comm_pointer) {
    struct comm *comm = *comm_pointer;
    if (comm == NULL) {
        return;
    }
    for (struct comm_message *message = comm->owned; message != NULL; message = message->next_owned) {
        if (message->is_live) {
            comm_message_withdraw(comm, message);
        }
    }
    comm->impl->destroy(comm);
    *comm_pointer = NULL;
}

void comm_mark_aborted(struct comm *comm, const char *reason) {
    int state = 0;
    if (atomic_compare_exchange_strong(&comm->abort_state, &state, 1)) {
        snprintf(comm->abort_reason, sizeof comm->abort_reason, "%s", reason);
        atomic_store(&comm->abort_state, 2);
    }
}

bool comm_is_aborted(const struct comm *comm) {
    return atomic_load(&comm->abort_state) == 2;
}

void comm_abort(struct comm *comm, const char *reason) {
    comm->impl->abort(comm, reason);
}

enum status comm_reserve_scratch(struct comm *comm, size_t bytes) {
    if (bytes <= comm->scratch_bytes) {
        return STATUS_OK;
    }
    free(comm->scratch);
    comm->scratch_bytes = 0;
    size_t padded = (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    comm->scratch = aligned_alloc(SCRATCH_ALIGNMENT, padded);
    CHECK(comm->scratch != NULL, STATUS_OUT_OF_MEMORY,
          "a sum over ranks needs %zu bytes beside its values and cannot get them; use smaller steps or free "
          "memory",
          padded);
    comm->scratch_bytes = padded;
    return STATUS_OK;
}

enum status comm_scratch(struct comm *comm, int64_t count, float **out) {
    TRY(comm_reserve_scratch(comm, (size_t)count * sizeof(float)));
    *out = comm->scratch;
    return STATUS_OK;
}

/* "rank 1 of 4 (tensor group of stage 0)" */
struct rank_text {
    char text[COMM_NAME_BYTES + 40];
};

static struct rank_text describe_rank(const struct comm *comm) {
    struct rank_text rank;
    snprintf(rank.text, sizeof rank.text, comm->name[0] == '\0' ? "rank %d of %d%s" : "rank %d of %d (%s)",
             comm->rank, comm->size, comm->name);
    return rank;
}

enum status comm_check_usable(const struct comm *comm, const char *operation) {
    CHECK(!comm_is_aborted(comm), STATUS_PEER_LOST, "%s; %s cannot do %s any more", comm->abort_reason,
          describe_rank(comm).text, operation);
    return STATUS_OK;
}

static enum status report(const struct comm *comm, const char *operation, const struct comm_message *message,
                          enum comm_outcome outcome, double started) {
    struct rank_text rank = describe_rank(comm);
    const char *duty = message->is_send ? "take" : "send";
    switch (outcome) {
    case COMM_DONE:
        break;
    case COMM_EXPIRED:
        FAIL(STATUS_PEER_LOST,
             "%s waited %.1f s in %s for rank %d to %s %zu bytes; see what rank %d says, or raise the "
             "deadline if it is only slow",
             rank.text, clock_seconds() - started, operation, message->peer, duty, message->bytes,
             message->peer);
    case COMM_ABORTED:
        FAIL(STATUS_PEER_LOST, "%s; %s stopped waiting in %s for rank %d to %s %zu bytes", comm->abort_reason,
             rank.text, operation, message->peer, duty, message->bytes);
    case COMM_LEFT:
        FAIL(STATUS_PEER_LOST,
             "%s waits in %s for rank %d to %s %zu bytes, but that rank has given up; see what it says",
             rank.text, operation, message->peer, duty, message->bytes);
    case COMM_WRONG_SIZE:
        FAIL(
            STATUS_INTERNAL,
            "%s expected %zu bytes of rank %d in %s, but %zu came; the ranks do not carry out the same plan: "
            "check that all run the same program with the same options",
            rank.text, message->bytes, message->peer, operation, message->arrived_bytes);
    case COMM_BROKEN:
        FAIL(STATUS_PEER_LOST, "%s lost rank %d in %s, which was to %s %zu bytes: %s; see what rank %d says",
             rank.text, message->peer, operation, duty, message->bytes, comm->transport_error, message->peer);
    }
    return STATUS_OK;
}

static enum status take_memory(struct comm *comm, struct comm_message **out) {
    struct comm_message *message = comm->free;
    if (message != NULL) {
        comm->free = message->next;
    } else {
        message = calloc(1, comm->impl->message_bytes);
        CHECK_MEMORY(message);
        message->next_owned = comm->owned;
        comm->owned = message;
    }
    *out = message;
    return STATUS_OK;
}

void comm_message_give_back(struct comm *comm, struct comm_message *message) {
    if (message->stream != NULL) {
        stream_kernel_leave(message->stream);
    }
    message->is_live = false;
    message->next = comm->free;
    comm->free = message;
}

enum status comm_message_take(struct comm *comm, const struct comm_message *wanted,
                              struct comm_message **out) {
    struct comm_message *message;
    assert(wanted->peer >= 0 && wanted->peer < comm->size && wanted->peer != comm->rank);
    TRY(take_memory(comm, &message));
    struct comm_message *next_owned = message->next_owned;
    *message = *wanted;
    message->next_owned = next_owned;
    message->next = NULL;
    message->is_live = true;
    if (message->stream != NULL) {
        stream_kernel_enter(message->stream);
    }
    *out = message;
    return STATUS_OK;
}

enum status comm_message_start(struct comm *comm, const char *operation, const struct comm_message *wanted,
                               struct comm_message **out) {
    struct comm_message *message;
    TRY(comm_message_take(comm, wanted, &message));
    enum comm_outcome outcome = comm->impl->start(comm, message);
    if (outcome != COMM_DONE) {
        enum status status = report(comm, operation, message, outcome, clock_seconds());
        comm_message_give_back(comm, message);
        return status;
    }
    comm->sent_bytes += message->is_send ? message->bytes : 0;
    *out = message;
    return STATUS_OK;
}

static enum comm_outcome wait_in_sight(struct comm *comm, const char *operation, struct comm_message *message,
                                       double until) {
    if (comm->watch == NULL) {
        return comm->impl->wait(comm, message, until);
    }
    atomic_store(&comm->watch->peer, message->peer);
    atomic_store(&comm->watch->operation, operation);
    enum comm_outcome outcome = comm->impl->wait(comm, message, until);
    atomic_store(&comm->watch->operation, NULL);
    return outcome;
}

enum status comm_message_wait(struct comm *comm, const char *operation, struct comm_message *message,
                              double started, double until) {
    enum comm_outcome outcome = wait_in_sight(comm, operation, message, until);
    enum status status = report(comm, operation, message, outcome, started);
    comm_message_give_back(comm, message);
    return status;
}

void comm_message_withdraw(struct comm *comm, struct comm_message *message) {
    comm->impl->withdraw(comm, message);
    comm_message_give_back(comm, message);
}

static enum status start_request(struct comm *comm, const char *operation, struct comm_message message,
                                 struct comm_request *out) {
    *out = (struct comm_request){NULL};
    TRY(comm_check_usable(comm, operation));
    if (message.stream != NULL) {
        TRY(stream_synchronize(message.stream));
    }
    struct comm_message *started;
    TRY(comm_message_start(comm, operation, &message, &started));
    out->state = started;
    return STATUS_OK;
}

enum status comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                            size_t bytes, struct comm_request *out) {
    struct comm_message message = {
        .stream = stream, .is_send = true, .peer = to, .memory = (void *)memory, .bytes = bytes};
    TRY(start_request(comm, "comm_start_send", message, out));
    return STATUS_OK;
}

enum status comm_start_receive(struct comm *comm, struct stream *stream, int from, void *memory, size_t bytes,
                               struct comm_request *out) {
    struct comm_message message = {.stream = stream, .peer = from, .memory = memory, .bytes = bytes};
    TRY(start_request(comm, "comm_start_receive", message, out));
    return STATUS_OK;
}

enum status comm_start_receive_early(struct comm *comm, struct stream *stream, int from, void *memory,
                                     size_t room_bytes, struct comm_request *out) {
    struct comm_message message = {
        .stream = stream, .peer = from, .memory = memory, .room_bytes = room_bytes};
    assert(room_bytes > 0);
    TRY(start_request(comm, "comm_start_receive_early", message, out));
    return STATUS_OK;
}

enum status comm_wait_sized(struct comm *comm, struct comm_request *request, size_t bytes) {
    struct comm_message *message = request->state;
    assert(message != NULL && message->room_bytes > 0);
    request->state = NULL;
    message->bytes = bytes;
    double now = clock_seconds();
    enum comm_outcome outcome = wait_in_sight(comm, "comm_wait_sized", message, now + comm->deadline_seconds);
    if (outcome == COMM_DONE && message->arrived_bytes != bytes) {
        outcome = COMM_WRONG_SIZE;
    }
    enum status status = report(comm, "comm_wait_sized", message, outcome, now);
    comm_message_give_back(comm, message);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

void comm_cancel(struct comm *comm, struct comm_request *request) {
    struct comm_message *message = request->state;
    if (message != NULL) {
        request->state = NULL;
        comm_message_withdraw(comm, message);
    }
}

enum status comm_wait(struct comm *comm, struct comm_request *request) {
    struct comm_message *message = request->state;
    if (message != NULL) {
        request->state = NULL;
        double now = clock_seconds();
        TRY(comm_message_wait(comm, "comm_wait", message, now, now + comm->deadline_seconds));
    }
    return STATUS_OK;
}

/* What a collective sent, whether it succeeded or not, since `before` had been sent. */
static void count_sent(struct comm *comm, enum comm_traffic kind, uint64_t before) {
    comm->sent_bytes_in[kind] += comm->sent_bytes - before;
}

enum status comm_sum(struct comm *comm, struct stream *stream, float *values, int64_t count) {
    uint64_t before = comm->sent_bytes;
    TRY(comm_check_usable(comm, "comm_sum"));
    enum status status = comm->impl->sum(comm, stream, values, count);
    count_sent(comm, COMM_TRAFFIC_SUM, before);
    TRY(status);
    return STATUS_OK;
}

enum status comm_sum_scatter(struct comm *comm, struct stream *stream, const float *values,
                             const int64_t *first, int64_t width, float *out) {
    uint64_t before = comm->sent_bytes;
    TRY(comm_check_usable(comm, "comm_sum_scatter"));
    enum status status = comm->impl->sum_scatter(comm, stream, values, first, width, out);
    count_sent(comm, COMM_TRAFFIC_SUM, before);
    TRY(status);
    return STATUS_OK;
}

enum status comm_start_gather(struct comm *comm, struct stream *stream, const void *in, const size_t *offsets,
                              void *out, struct comm_flight *flight) {
    uint64_t before = comm->sent_bytes;
    flight->state = NULL;
    TRY(comm_check_usable(comm, "comm_gather"));
    enum status status = comm->impl->start_gather(comm, stream, in, offsets, out, &flight->state);
    count_sent(comm, COMM_TRAFFIC_GATHER, before);
    TRY(status);
    return STATUS_OK;
}

enum status comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                struct comm_flight *flight) {
    uint64_t before = comm->sent_bytes;
    flight->state = NULL;
    TRY(comm_check_usable(comm, "comm_exchange"));
    enum status status =
        comm->impl->start_exchange(comm, stream, in, send_offsets, out, receive_offsets, &flight->state);
    count_sent(comm, COMM_TRAFFIC_EXCHANGE, before);
    TRY(status);
    return STATUS_OK;
}

enum status comm_finish(struct comm *comm, struct comm_flight *flight) {
    void *state = flight->state;
    flight->state = NULL;
    if (state != NULL) {
        TRY(comm->impl->finish(comm, state));
    }
    return STATUS_OK;
}

enum status comm_gather(struct comm *comm, struct stream *stream, const void *in, const size_t *offsets,
                        void *out) {
    struct comm_flight flight;
    TRY(comm_start_gather(comm, stream, in, offsets, out, &flight));
    return comm_finish(comm, &flight);
}
