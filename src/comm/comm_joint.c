/* Every message is one of a part, under another peer's number. */
#include "comm/comm_joint.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm_impl.h"

struct joint_message {
    struct comm_message message;
    struct comm *part;
    struct comm_message *inner; /* the part's; the stream is held open by the outer one */
};

struct joint_end {
    struct comm comm;
    struct comm *parts[COMM_JOINT_PARTS];
    struct comm *also_aborted;
    struct comm_route *routes; /* [size] */
};

static struct joint_end *end_of(struct comm *comm) {
    return (struct joint_end *)comm;
}

static enum comm_outcome start_joint(struct comm *comm, struct comm_message *message) {
    struct joint_end *end = end_of(comm);
    struct joint_message *own = (struct joint_message *)message;
    const struct comm_route *route = &end->routes[message->peer];
    struct comm_message wanted = *message;
    wanted.stream = NULL;
    wanted.peer = route->rank;
    own->part = end->parts[route->part];
    if (comm_message_take(own->part, &wanted, &own->inner) != STATUS_OK) {
        comm->transport_error = "out of memory";
        return COMM_BROKEN;
    }
    enum comm_outcome outcome = own->part->impl->start(own->part, own->inner);
    if (outcome != COMM_DONE) {
        comm->transport_error = own->part->transport_error;
        comm_message_give_back(own->part, own->inner);
    }
    return outcome;
}

static enum comm_outcome wait_joint(struct comm *comm, struct comm_message *message, double until) {
    struct joint_message *own = (struct joint_message *)message;
    struct comm *part = own->part;
    enum comm_outcome outcome = part->impl->wait(part, own->inner, until);
    message->arrived_bytes = own->inner->arrived_bytes;
    comm->transport_error = part->transport_error;
    if (outcome == COMM_ABORTED) {
        comm_mark_aborted(comm, part->abort_reason);
    }
    comm_message_give_back(part, own->inner);
    return outcome;
}

static void withdraw_joint(struct comm *comm, struct comm_message *message) {
    struct joint_message *own = (struct joint_message *)message;
    (void)comm;
    comm_message_withdraw(own->part, own->inner);
}

static void abort_joint(struct comm *comm, const char *reason) {
    struct joint_end *end = end_of(comm);
    comm_mark_aborted(comm, reason);
    for (int i = 0; i < COMM_JOINT_PARTS; i++) {
        comm_abort(end->parts[i], reason);
    }
    if (end->also_aborted != NULL) {
        comm_abort(end->also_aborted, reason);
    }
}

static void destroy_joint(struct comm *comm) {
    struct joint_end *end = end_of(comm);
    for (int i = 0; i < COMM_JOINT_PARTS; i++) {
        comm_destroy(&end->parts[i]);
    }
    free(end->routes);
    comm_deinit(comm);
    free(end);
}

static const struct comm_impl impl_joint = {
    .name = "joint",
    .message_bytes = sizeof(struct joint_message),
    .start = start_joint,
    .wait = wait_joint,
    .withdraw = withdraw_joint,
    .abort = abort_joint,
    .destroy = destroy_joint,
    .sum = comm_sum_host,
    .sum_scatter = comm_sum_scatter_host,
    .start_gather = comm_start_gather_host,
    .start_exchange = comm_start_exchange_host,
    .finish = comm_finish_host,
};

/* Without its parts. */
static enum status make_end(const struct comm_joint_options *options, struct joint_end **out) {
    enum status status = STATUS_OK;
    struct joint_end *end = calloc(1, sizeof *end);
    CHECK_MEMORY(end);
    end->routes = calloc((size_t)options->size, sizeof *end->routes);
    CHECK_MEMORY_GOTO(end->routes);
    memcpy(end->routes, options->routes, (size_t)options->size * sizeof *end->routes);
    TRY_GOTO(comm_init(&end->comm, &impl_joint, options->rank, options->size));
    *out = end;
    return STATUS_OK;
fail:
    free(end->routes);
    comm_deinit(&end->comm);
    free(end);
    return status;
}

enum status comm_joint_create(const struct comm_joint_options *options, struct comm **out) {
    struct joint_end *end = NULL;
    enum status status = make_end(options, &end);
    *out = end == NULL ? NULL : &end->comm;
    for (int i = 0; i < COMM_JOINT_PARTS; i++) {
        struct comm *part = options->parts[i];
        if (end != NULL) {
            end->parts[i] = part;
        } else {
            comm_destroy(&part);
        }
    }
    if (status != STATUS_OK) {
        return error_forward(status, ERROR_HERE);
    }
    end->also_aborted = options->also_aborted;
    return STATUS_OK;
}
