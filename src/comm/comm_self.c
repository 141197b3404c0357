/* A group of one: the collectives copy what is the rank's own, and there is nobody to send a message to. */
#include <assert.h>
#include <stdlib.h>

#include "comm/comm_impl.h"

static enum comm_outcome start_self(struct comm *comm, struct comm_message *message) {
    comm->transport_error = "a group of one rank has no messages";
    (void)message;
    return COMM_BROKEN;
}

static void destroy_self(struct comm *comm) {
    comm_deinit(comm);
    free(comm);
}

/* No message ever starts: wait and withdraw stay empty. */
static const struct comm_impl impl_self = {
    .name = "self",
    .message_bytes = sizeof(struct comm_message),
    .start = start_self,
    .abort = comm_mark_aborted,
    .destroy = destroy_self,
    .sum = comm_sum_host,
    .sum_scatter = comm_sum_scatter_host,
    .start_gather = comm_start_gather_host,
    .start_exchange = comm_start_exchange_host,
    .finish = comm_finish_host,
};

enum status comm_self_create(struct comm **out) {
    *out = NULL;
    struct comm *comm = calloc(1, sizeof *comm);
    CHECK_MEMORY(comm);
    enum status status = comm_init(comm, &impl_self, 0, 1);
    if (status != STATUS_OK) {
        destroy_self(comm);
        return error_forward(status, ERROR_HERE);
    }
    *out = comm;
    return STATUS_OK;
}
