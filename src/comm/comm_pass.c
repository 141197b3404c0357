/* Two lists of messages in the order they were started: receives and sends. */
#include "comm/comm_pass.h"

#include <stdlib.h>

#include "base/clock.h"
#include "device/device_impl.h"

enum status comm_pass_begin(struct comm *comm, struct stream *stream, const char *operation,
                            struct comm_pass *out) {
    if (stream != NULL) {
        TRY(stream_synchronize(stream));
        stream_kernel_enter(stream);
    }
    *out = (struct comm_pass){.comm = comm,
                              .operation = operation,
                              .stream = stream,
                              .started = clock_seconds(),
                              .deadline_seconds = comm->deadline_seconds};
    for (int kind = 0; kind < 2; kind++) {
        out->end[kind] = &out->first[kind];
    }
    return STATUS_OK;
}

static enum status take_flight(struct comm *comm, struct comm_pass **out) {
    struct comm_pass *pass = comm->flights;
    while (pass != NULL && pass->is_in_flight) {
        pass = pass->next_flight;
    }
    if (pass == NULL) {
        pass = calloc(1, sizeof *pass);
        CHECK_MEMORY(pass);
        pass->next_flight = comm->flights;
        comm->flights = pass;
    }
    *out = pass;
    return STATUS_OK;
}

enum status comm_pass_take_off(struct comm *comm, struct stream *stream, const char *operation,
                               struct comm_pass **out) {
    struct comm_pass *pass;
    TRY(take_flight(comm, &pass));
    struct comm_pass *next = pass->next_flight;
    TRY(comm_pass_begin(comm, stream, operation, pass));
    pass->next_flight = next;
    pass->is_in_flight = true;
    *out = pass;
    return STATUS_OK;
}

void comm_pass_land(struct comm_pass *pass) {
    comm_pass_end(pass);
    pass->is_in_flight = false;
}

static enum status start(struct comm_pass *pass, struct comm_message message) {
    if (message.bytes > 0) {
        message.channel = COMM_CHANNEL_COLLECTIVES;
        struct comm_message ***end = &pass->end[message.is_send];
        TRY(comm_message_start(pass->comm, pass->operation, &message, *end));
        *end = &(**end)->next;
    }
    return STATUS_OK;
}

enum status comm_pass_send(struct comm_pass *pass, int to, const void *memory, size_t bytes) {
    struct comm_message message = {.is_send = true, .peer = to, .memory = (void *)memory, .bytes = bytes};
    TRY(start(pass, message));
    return STATUS_OK;
}

enum status comm_pass_receive(struct comm_pass *pass, int from, void *memory, size_t bytes) {
    struct comm_message message = {.peer = from, .memory = memory, .bytes = bytes};
    TRY(start(pass, message));
    return STATUS_OK;
}

/* The first message not waited for, receives first; NULL if there is none. */
static struct comm_message *take_first(struct comm_pass *pass) {
    for (int kind = 0; kind < 2; kind++) {
        struct comm_message *message = pass->first[kind];
        if (message != NULL) {
            pass->first[kind] = message->next;
            if (message->next == NULL) {
                pass->end[kind] = &pass->first[kind];
            }
            return message;
        }
    }
    return NULL;
}

enum status comm_pass_wait(struct comm_pass *pass) {
    for (struct comm_message *message; (message = take_first(pass)) != NULL;) {
        TRY(comm_message_wait(pass->comm, pass->operation, message, pass->started,
                              pass->started + pass->deadline_seconds));
    }
    return STATUS_OK;
}

void comm_pass_end(struct comm_pass *pass) {
    for (struct comm_message *message; (message = take_first(pass)) != NULL;) {
        comm_message_withdraw(pass->comm, message);
    }
    if (pass->stream != NULL) {
        stream_kernel_leave(pass->stream);
    }
}
