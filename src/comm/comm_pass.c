/* A list of messages in the order they were started. */
#include "comm/comm_pass.h"

#include "base/clock.h"
#include "device/device_impl.h"

enum status comm_pass_begin(struct comm *comm, struct stream *stream, const char *operation,
                            struct comm_pass *out) {
    if (stream != NULL) {
        TRY(stream_synchronize(stream));
        stream_kernel_enter(stream);
    }
    *out = (struct comm_pass){
        .comm = comm, .operation = operation, .stream = stream, .started = clock_seconds()};
    out->end = &out->first;
    return STATUS_OK;
}

static enum status start(struct comm_pass *pass, struct comm_message message) {
    if (message.bytes > 0) {
        message.channel = COMM_CHANNEL_COLLECTIVES;
        TRY(comm_message_start(pass->comm, pass->operation, &message, pass->end));
        pass->end = &(*pass->end)->next;
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

enum status comm_pass_wait(struct comm_pass *pass) {
    while (pass->first != NULL) {
        struct comm_message *message = pass->first;
        pass->first = message->next;
        TRY(comm_message_wait(pass->comm, pass->operation, message, pass->started));
    }
    pass->end = &pass->first;
    return STATUS_OK;
}

void comm_pass_end(struct comm_pass *pass) {
    while (pass->first != NULL) {
        struct comm_message *message = pass->first;
        pass->first = message->next;
        comm_message_withdraw(pass->comm, message);
    }
    if (pass->stream != NULL) {
        stream_kernel_leave(pass->stream);
    }
}
