/*
 * One collective under way: the messages it has started, its deadline, and the memory it holds open.
 *
 * Messages of no bytes are left out: both sides know the size. Between begin and end a pass stays where it
 * is.
 */
#ifndef SLUICE_COMM_COMM_PASS_H
#define SLUICE_COMM_COMM_PASS_H

#include "comm/comm_impl.h"

struct comm_pass {
    struct comm *comm;
    const char *operation; /* for sentences */
    struct stream *stream; /* NULL: host memory */
    double started;
    double deadline_seconds;
    /* By is_send. Receives are waited for first: a report then names the bytes that are missing. */
    struct comm_message *first[2];
    struct comm_message **end[2];  /* where the next message is linked */
    struct comm_pass *next_flight; /* of the communicator's */
    bool is_in_flight;
};

/* Waits for the stream's work and opens its memory. Owned: comm_pass_end. */
enum status comm_pass_begin(struct comm *comm, struct stream *stream, const char *operation,
                            struct comm_pass *out);

enum status comm_pass_send(struct comm_pass *pass, int to, const void *memory, size_t bytes);
enum status comm_pass_receive(struct comm_pass *pass, int from, void *memory, size_t bytes);

/* Waits for all messages started so far; after a failure they are to be given up by comm_pass_end. */
enum status comm_pass_wait(struct comm_pass *pass);

/* Closes the memory and withdraws what was not waited for. */
void comm_pass_end(struct comm_pass *pass);

/* A pass that outlives its call, in the communicator's memory. Owned: comm_pass_land. */
enum status comm_pass_take_off(struct comm *comm, struct stream *stream, const char *operation,
                               struct comm_pass **out);
void comm_pass_land(struct comm_pass *pass);

/* comm_gather as a part of another collective. */
enum status comm_pass_gather(struct comm_pass *pass, const void *in, const size_t *offsets, void *out);

#endif
