/*
 * Messages copied once, from the sender's memory to the receiver's.
 *
 * A message that finds its counterpart in the queue of its pair is copied at once by who comes with it: so
 * neither side depends on when the other comes to wait, only on its start. But a receiver that waits anyway,
 * for this message or for another, copies itself, so that the sender can go on.
 *
 * One lock guards the group; nobody holds it while copying. A rank that waits watches a counter of its end
 * for a moment, if there is a core for each rank, then sleeps on a condition.
 */
#include "comm/comm_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/worker_pool.h"
#include "comm/comm_impl.h"

static const double spin_seconds = 200e-6;

enum { SPIN_LOOKS = 64 };

enum message_state {
    MESSAGE_QUEUED,
    MESSAGE_MATCHED, /* the receiver, which waits, is to copy */
    MESSAGE_COPYING, /* one of the two is at it: nobody takes the message back now */
    MESSAGE_DONE,
    MESSAGE_WRONG_SIZE,
    MESSAGE_LEFT, /* the peer took its part back, or has left */
};

struct thread_message {
    struct comm_message message;
    enum message_state state;
    struct thread_message *counterpart; /* if matched or being copied */
    struct thread_message *next;        /* in the pair's queue, or among the receiver's matched ones */
};

/* Oldest first. */
struct message_queue {
    struct thread_message *first;
    struct thread_message **end;
};

struct thread_end {
    struct comm comm;
    struct thread_group *group;
    struct message_queue matched; /* messages that this end is to copy */
    pthread_cond_t changed;
    atomic_uint change_count; /* written under the lock, watched without */
    bool is_waiting;
    bool has_left;
};

struct thread_group {
    pthread_mutex_t lock; /* guards all states, queues and flags of the group */
    int size;
    int left_count;
    bool spins;                   /* false: more ranks than cores */
    struct thread_end **ends;     /* [size] */
    struct message_queue *queues; /* [size * size * COMM_CHANNEL_COUNT]: sends or receives, never both */
};

static struct thread_end *end_of(struct comm *comm) {
    return (struct thread_end *)comm;
}

static void queue_push(struct message_queue *queue, struct thread_message *message) {
    message->next = NULL;
    *queue->end = message;
    queue->end = &message->next;
}

static struct thread_message *queue_pop(struct message_queue *queue) {
    struct thread_message *message = queue->first;
    queue->first = message->next;
    if (queue->first == NULL) {
        queue->end = &queue->first;
    }
    return message;
}

static void queue_remove(struct message_queue *queue, const struct thread_message *message) {
    struct thread_message **link = &queue->first;
    while (*link != message) {
        link = &(*link)->next;
    }
    *link = message->next;
    if (*link == NULL) {
        queue->end = link;
    }
}

static struct message_queue *queue_of(const struct thread_end *end, const struct comm_message *message) {
    int from = message->is_send ? end->comm.rank : message->peer;
    int to = message->is_send ? message->peer : end->comm.rank;
    size_t pair = (size_t)from * (size_t)end->group->size + (size_t)to;
    return &end->group->queues[pair * COMM_CHANNEL_COUNT + message->channel];
}

static void tell(struct thread_end *end) {
    atomic_fetch_add(&end->change_count, 1);
    pthread_cond_signal(&end->changed);
}

static struct thread_end *peer_of(const struct thread_end *end, const struct thread_message *message) {
    return end->group->ends[message->message.peer];
}

/* Copies a matched pair of which one end is `end`; the lock is held, but not meanwhile. */
static void copy_message(struct thread_end *end, struct thread_message *own) {
    struct thread_message *other = own->counterpart;
    struct thread_message *receive = own->message.is_send ? other : own;
    struct thread_message *send = own->message.is_send ? own : other;
    receive->state = MESSAGE_COPYING;
    send->state = MESSAGE_COPYING;
    pthread_mutex_unlock(&end->group->lock);
    if (send->message.bytes > 0) {
        memcpy(receive->message.memory, send->message.memory, send->message.bytes);
    }
    receive->message.arrived_bytes = send->message.bytes;
    pthread_mutex_lock(&end->group->lock);
    receive->state = MESSAGE_DONE;
    send->state = MESSAGE_DONE;
    tell(peer_of(end, own));
}

static bool has_fitting_size(const struct comm_message *receive, const struct comm_message *send) {
    return receive->room_bytes > 0 ? send->bytes <= receive->room_bytes : send->bytes == receive->bytes;
}

/* Brings a message together with the first one that waited for it. The lock is held. */
static void match(struct thread_end *end, struct thread_message *own, struct thread_message *other) {
    struct thread_message *receive = own->message.is_send ? other : own;
    struct thread_message *send = own->message.is_send ? own : other;
    if (!has_fitting_size(&receive->message, &send->message)) {
        receive->message.arrived_bytes = send->message.bytes;
        receive->state = MESSAGE_WRONG_SIZE;
        send->state = MESSAGE_DONE;
        tell(peer_of(end, own));
        return;
    }
    own->counterpart = other;
    other->counterpart = own;
    struct thread_end *peer = peer_of(end, own);
    if (own == send && peer->is_waiting) {
        own->state = MESSAGE_MATCHED;
        other->state = MESSAGE_MATCHED;
        queue_push(&peer->matched, receive);
        tell(peer);
    } else {
        copy_message(end, own);
    }
}

static enum comm_outcome start_threads(struct comm *comm, struct comm_message *message) {
    struct thread_end *end = end_of(comm);
    struct thread_message *own = (struct thread_message *)message;
    pthread_mutex_lock(&end->group->lock);
    struct message_queue *queue = queue_of(end, message);
    own->state = MESSAGE_QUEUED;
    if (queue->first != NULL && queue->first->message.is_send != message->is_send) {
        match(end, own, queue_pop(queue));
    } else {
        queue_push(queue, own);
    }
    pthread_mutex_unlock(&end->group->lock);
    return COMM_DONE;
}

/* Takes the message out of everybody's sight. The lock is held; a copy that is under way ends first. */
static void take_back(struct thread_end *end, struct thread_message *own) {
    while (own->state == MESSAGE_COPYING) {
        pthread_cond_wait(&end->changed, &end->group->lock);
    }
    if (own->state == MESSAGE_QUEUED) {
        queue_remove(queue_of(end, &own->message), own);
    } else if (own->state == MESSAGE_MATCHED) {
        struct thread_end *peer = peer_of(end, own);
        queue_remove(own->message.is_send ? &peer->matched : &end->matched,
                     own->message.is_send ? own->counterpart : own);
        own->counterpart->state = MESSAGE_LEFT;
        tell(peer);
    }
}

/* Waits until something of this end changes or the moment comes; false if it came. The lock is held. */
static bool wait_for_change(struct thread_end *end, double until) {
    unsigned seen = atomic_load(&end->change_count);
    if (end->group->spins) {
        pthread_mutex_unlock(&end->group->lock);
        double started = clock_seconds();
        bool has_changed = false;
        while (!has_changed && clock_seconds() - started < spin_seconds) {
            for (int look = 0; look < SPIN_LOOKS && !has_changed; look++) {
                has_changed = atomic_load_explicit(&end->change_count, memory_order_relaxed) != seen;
            }
        }
        pthread_mutex_lock(&end->group->lock);
    }
    bool is_in_time = true;
    while (is_in_time && atomic_load(&end->change_count) == seen) {
        is_in_time = condition_wait_until(&end->changed, &end->group->lock, until);
    }
    return is_in_time;
}

/* How the wait for a message ends as things are; false if it goes on. The lock is held. */
static bool find_outcome(const struct thread_end *end, const struct thread_message *own,
                         enum comm_outcome *out) {
    switch (own->state) {
    case MESSAGE_DONE:
        *out = COMM_DONE;
        return true;
    case MESSAGE_WRONG_SIZE:
        *out = COMM_WRONG_SIZE;
        return true;
    case MESSAGE_COPYING:
        return false;
    case MESSAGE_QUEUED:
    case MESSAGE_MATCHED:
    case MESSAGE_LEFT:
        break;
    }
    bool is_aborted = comm_is_aborted(&end->comm);
    *out = is_aborted ? COMM_ABORTED : COMM_LEFT;
    return is_aborted || own->state == MESSAGE_LEFT || peer_of(end, own)->has_left;
}

static enum comm_outcome wait_threads(struct comm *comm, struct comm_message *message, double until) {
    struct thread_end *end = end_of(comm);
    struct thread_message *own = (struct thread_message *)message;
    enum comm_outcome outcome = COMM_EXPIRED;
    bool is_in_time = true;
    pthread_mutex_lock(&end->group->lock);
    end->is_waiting = true;
    for (;;) {
        while (end->matched.first != NULL) {
            copy_message(end, queue_pop(&end->matched));
        }
        if (find_outcome(end, own, &outcome)) {
            break;
        }
        if (!is_in_time) {
            outcome = COMM_EXPIRED;
            break;
        }
        is_in_time = wait_for_change(end, until);
    }
    end->is_waiting = false;
    take_back(end, own);
    /* It may have been copied while it was to be taken back. */
    outcome = own->state == MESSAGE_DONE ? COMM_DONE : outcome;
    pthread_mutex_unlock(&end->group->lock);
    return outcome;
}

static void withdraw_threads(struct comm *comm, struct comm_message *message) {
    struct thread_end *end = end_of(comm);
    pthread_mutex_lock(&end->group->lock);
    take_back(end, (struct thread_message *)message);
    pthread_mutex_unlock(&end->group->lock);
}

static void abort_threads(struct comm *comm, const char *reason) {
    struct thread_group *group = end_of(comm)->group;
    pthread_mutex_lock(&group->lock);
    for (int rank = 0; rank < group->size; rank++) {
        comm_mark_aborted(&group->ends[rank]->comm, reason);
        tell(group->ends[rank]);
    }
    pthread_mutex_unlock(&group->lock);
}

static void free_end(struct thread_end *end) {
    if (end != NULL) {
        pthread_cond_destroy(&end->changed);
        comm_deinit(&end->comm);
        free(end);
    }
}

static void free_group(struct thread_group *group) {
    for (int rank = 0; group->ends != NULL && rank < group->size; rank++) {
        free_end(group->ends[rank]);
    }
    pthread_mutex_destroy(&group->lock);
    free(group->ends);
    free(group->queues);
    free(group);
}

/* An end stays in memory until the last one has left: others look at it. */
static void destroy_threads(struct comm *comm) {
    struct thread_end *end = end_of(comm);
    struct thread_group *group = end->group;
    pthread_mutex_lock(&group->lock);
    end->has_left = true;
    group->left_count++;
    bool is_last = group->left_count == group->size;
    for (int rank = 0; rank < group->size; rank++) {
        tell(group->ends[rank]);
    }
    pthread_mutex_unlock(&group->lock);
    if (is_last) {
        free_group(group);
    }
}

static const struct comm_impl impl_threads = {
    .name = "threads",
    .message_bytes = sizeof(struct thread_message),
    .start = start_threads,
    .wait = wait_threads,
    .withdraw = withdraw_threads,
    .abort = abort_threads,
    .destroy = destroy_threads,
    .sum = comm_sum_host,
    .sum_scatter = comm_sum_scatter_host,
    .start_gather = comm_start_gather_host,
    .start_exchange = comm_start_exchange_host,
    .finish = comm_finish_host,
};

static enum status make_end(struct thread_group *group, int rank) {
    struct thread_end *end = calloc(1, sizeof *end);
    CHECK_MEMORY(end);
    end->group = group;
    end->matched.end = &end->matched.first;
    atomic_init(&end->change_count, 0);
    enum status status = condition_init(&end->changed);
    if (status != STATUS_OK) {
        free(end);
        return error_forward(status, ERROR_HERE);
    }
    group->ends[rank] = end;
    TRY(comm_init(&end->comm, &impl_threads, rank, group->size));
    return STATUS_OK;
}

static enum status fill_group(struct thread_group *group, int size) {
    group->size = size;
    group->spins = (unsigned)size <= worker_pool_cores_allowed();
    size_t queue_count = (size_t)size * (size_t)size * COMM_CHANNEL_COUNT;
    group->ends = calloc((size_t)size, sizeof(struct thread_end *));
    CHECK_MEMORY(group->ends);
    group->queues = calloc(queue_count, sizeof *group->queues);
    CHECK_MEMORY(group->queues);
    for (size_t i = 0; i < queue_count; i++) {
        group->queues[i].end = &group->queues[i].first;
    }
    for (int rank = 0; rank < size; rank++) {
        TRY(make_end(group, rank));
    }
    return STATUS_OK;
}

enum status comm_threads_create(int size, struct comm **ends) {
    struct thread_group *group = calloc(1, sizeof *group);
    CHECK_MEMORY(group);
    pthread_mutex_init(&group->lock, NULL);
    enum status status = fill_group(group, size);
    if (status != STATUS_OK) {
        free_group(group);
        return error_forward(status, ERROR_HERE);
    }
    for (int rank = 0; rank < size; rank++) {
        ends[rank] = &group->ends[rank]->comm;
    }
    return STATUS_OK;
}
