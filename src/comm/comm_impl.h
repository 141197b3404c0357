/*
 * For implementations of communicators only: the table of functions behind comm.h.
 *
 * An implementation embeds struct comm and struct comm_message as the first members of its own structs, and
 * moves messages between two ranks. Those that move host memory take the collectives from comm_collectives.c
 * and comm_sum.c, which are made of messages; one that moves device memory (NCCL, RCCL) brings its own and
 * keeps the tree's order of sums.
 */
#ifndef SLUICE_COMM_COMM_IMPL_H
#define SLUICE_COMM_COMM_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "comm/comm.h"

enum { COMM_NAME_BYTES = 80, COMM_REASON_BYTES = 512 };

/* Order holds within a channel: a message of comm_start_* is never taken for one of a collective. */
enum comm_channel { COMM_CHANNEL_MESSAGES, COMM_CHANNEL_COLLECTIVES, COMM_CHANNEL_COUNT };

/* How a wait for a message ended. */
enum comm_outcome {
    COMM_DONE,
    COMM_EXPIRED,
    COMM_ABORTED,
    COMM_LEFT,       /* the peer took its part back, or destroyed its end */
    COMM_WRONG_SIZE, /* of a receive: the message had `arrived_bytes`, and its memory is undefined. With
                        room_bytes: it had more; whether it had as many as it should is seen later */
    COMM_BROKEN,     /* the transport failed: comm.transport_error says how */
};

struct comm_message {
    struct comm_message *next_owned; /* all that this end has made */
    struct comm_message *next;       /* of the same pass, or of the free ones */
    struct stream *stream;           /* whose memory is held open until the wait; NULL: host memory */
    enum comm_channel channel;
    bool is_live; /* started and not yet waited for or withdrawn */
    bool is_send;
    int peer;
    void *memory; /* only read if is_send */
    size_t bytes;
    size_t room_bytes; /* of a receive that was started before its size was known; else 0 */
    size_t arrived_bytes;
};

struct comm_impl {
    const char *name;
    size_t message_bytes; /* of its struct that begins with struct comm_message; zeroed when made */
    /* Starts a message whose fields are set. COMM_DONE, or COMM_BROKEN: then it is not started. */
    enum comm_outcome (*start)(struct comm *comm, struct comm_message *message);
    /* Waits until a moment of clock_seconds. However it ends, nobody uses the message's memory any more. */
    enum comm_outcome (*wait)(struct comm *comm, struct comm_message *message, double until);
    /* Takes a started message back; what it moved is undefined. */
    void (*withdraw)(struct comm *comm, struct comm_message *message);
    /* Tells all ends, the own one by comm_mark_aborted. Any thread. */
    void (*abort)(struct comm *comm, const char *reason);
    /* Frees what the implementation made; no message is live. Ends with comm_deinit. */
    void (*destroy)(struct comm *comm);
    /* The collectives of comm.h. */
    enum status (*sum)(struct comm *comm, struct stream *stream, float *values, int64_t count);
    enum status (*sum_scatter)(struct comm *comm, struct stream *stream, const float *values,
                               const int64_t *first, int64_t width, float *out);
    enum status (*start_gather)(struct comm *comm, struct stream *stream, const void *in,
                                const size_t *offsets, void *out, void **flight);
    enum status (*start_exchange)(struct comm *comm, struct stream *stream, const void *in,
                                  const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                  void **flight);
    enum status (*finish)(struct comm *comm, void *flight);
};

struct comm_pass;

struct comm {
    const struct comm_impl *impl;
    int rank;
    int size;
    double deadline_seconds;
    double idle_seconds;      /* of a broadcast, for its root */
    struct comm_watch *watch; /* NULL: none */
    uint64_t sent_bytes;
    uint64_t sent_bytes_in[COMM_TRAFFIC_COUNT];
    struct comm_message *owned;
    struct comm_message *free;
    struct comm_pass *flights; /* of collectives that move host memory: all that this end has made */
    void *scratch;
    size_t scratch_bytes;
    int64_t *shares; /* [size + 1]: how comm_sum deals out its values */
    size_t *offsets; /* [size + 1]: the same in bytes */
    char name[COMM_NAME_BYTES];
    const char *transport_error; /* static, or valid until the next failure */
    atomic_int abort_state;      /* of abort_reason: 0 none, 1 being written, 2 readable */
    char abort_reason[COMM_REASON_BYTES];
};

/* Sets the fields of a zeroed struct. */
enum status comm_init(struct comm *comm, const struct comm_impl *impl, int rank, int size);
void comm_deinit(struct comm *comm);

/* Keeps the reason if it is the first. Any thread. */
void comm_mark_aborted(struct comm *comm, const char *reason);
bool comm_is_aborted(const struct comm *comm);

/* PEER_LOST if the group was aborted. */
enum status comm_check_usable(const struct comm *comm, const char *operation);

/* A live message with the fields of `wanted` from stream on, not started, and back again. */
enum status comm_message_take(struct comm *comm, const struct comm_message *wanted,
                              struct comm_message **out);
void comm_message_give_back(struct comm *comm, struct comm_message *message);

/* Takes a message and starts it; `message` has its fields from stream to bytes set. */
enum status comm_message_start(struct comm *comm, const char *operation, const struct comm_message *message,
                               struct comm_message **out);

/* Waits for a message until a moment of clock_seconds and gives it back. `started`: when the operation began.
 */
enum status comm_message_wait(struct comm *comm, const char *operation, struct comm_message *message,
                              double started, double until);

/* Withdraws a live message and gives it back. */
void comm_message_withdraw(struct comm *comm, struct comm_message *message);

/* Host memory for sums, valid until the next call. */
enum status comm_scratch(struct comm *comm, int64_t count, float **out);

/* The collectives of implementations that move host memory. */
enum status comm_sum_host(struct comm *comm, struct stream *stream, float *values, int64_t count);
enum status comm_sum_scatter_host(struct comm *comm, struct stream *stream, const float *values,
                                  const int64_t *first, int64_t width, float *out);
enum status comm_start_gather_host(struct comm *comm, struct stream *stream, const void *in,
                                   const size_t *offsets, void *out, void **flight);
enum status comm_start_exchange_host(struct comm *comm, struct stream *stream, const void *in,
                                     const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                     void **flight);
enum status comm_finish_host(struct comm *comm, void *flight);

#endif
