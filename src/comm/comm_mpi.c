/*
 * Messages as MPI's own, on one MPI communicator; a group is a range of tags.
 *
 * So groups need no collective call that could wait for ever for a missing rank, and all waits are ours: they
 * poll, look for an abort, and know their deadline. MPI counts are ints: a long message is two, one of whole
 * megabytes and one of the rest. A receiver that does not know the size yet sees by the first one whether
 * there is a second.
 */
#include "comm/comm_mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/comm_impl.h"
#include "comm/comm_mpi_mover.h"

enum {
    PARTS_MAX = 2,
    MEGABYTE = 1 << 20,
    LONG_BYTES_MIN = 64 * MEGABYTE,
    TAG_ABORT = COMM_CHANNEL_COUNT, /* beside the channels' tags */
    TAGS_PER_GROUP = COMM_CHANNEL_COUNT + 1,
};

/* How to wait: at once with the core given away, then in sleeps that are a part of the time waited so far. */
static const double awake_seconds = 100e-6;
static const double sleep_part = 0.125;
static const double sleep_seconds_max = 1e-3;
static const double withdraw_seconds = 0.1;

struct mpi_message {
    struct comm_message message;
    MPI_Request requests[PARTS_MAX];
    int part_count; /* those that are not complete come last */
    int done_count;
    size_t arrived_bytes;
    bool is_moved; /* counted by the mover */
};

struct mpi_end {
    struct comm comm;
    int first_tag;
    bool is_world;
    bool has_lost_peer;      /* a wait failed: MPI_Finalize could wait for ever */
    MPI_Datatype megabytes;  /* of the world; groups have a copy */
    struct mpi_mover *mover; /* the same; NULL: none */
    int *world_ranks;        /* [size] */
    char error_text[MPI_MAX_ERROR_STRING];
};

static struct mpi_end *end_of(struct comm *comm) {
    return (struct mpi_end *)comm;
}

static enum comm_outcome keep_error(struct mpi_end *end, int code) {
    int length = 0;
    if (MPI_Error_string(code, end->error_text, &length) != MPI_SUCCESS) {
        strcpy(end->error_text, "MPI failed");
    }
    end->comm.transport_error = end->error_text;
    end->has_lost_peer = true;
    return COMM_BROKEN;
}

static int start_part(struct mpi_end *end, struct mpi_message *own, size_t offset, size_t count,
                      MPI_Datatype type) {
    char *memory = own->message.memory;
    int peer = end->world_ranks[own->message.peer];
    int tag = end->first_tag + (int)own->message.channel;
    MPI_Request *request = &own->requests[own->part_count];
    int code = own->message.is_send
                   ? MPI_Isend(memory + offset, (int)count, type, peer, tag, MPI_COMM_WORLD, request)
                   : MPI_Irecv(memory + offset, (int)count, type, peer, tag, MPI_COMM_WORLD, request);
    own->part_count += code == MPI_SUCCESS;
    return code;
}

static void withdraw_mpi(struct comm *comm, struct comm_message *message);

/* Tells the mover that a long message is under way, or that a counted one no more is. */
static void count_message(const struct mpi_end *end, struct mpi_message *own, bool is_under_way) {
    if (own->is_moved != is_under_way) {
        own->is_moved = is_under_way;
        mpi_mover_count_message(end->mover, is_under_way ? 1 : -1);
    }
}

static enum comm_outcome start_mpi(struct comm *comm, struct comm_message *message) {
    struct mpi_end *end = end_of(comm);
    struct mpi_message *own = (struct mpi_message *)message;
    own->part_count = 0;
    own->done_count = 0;
    own->arrived_bytes = 0;
    size_t bytes = message->room_bytes > 0 ? message->room_bytes : message->bytes;
    size_t megabytes = bytes >= LONG_BYTES_MIN ? bytes / MEGABYTE : 0;
    size_t rest = bytes - megabytes * MEGABYTE;
    int code = MPI_SUCCESS;
    if (megabytes > 0) {
        code = start_part(end, own, 0, megabytes, end->megabytes);
    }
    if (code == MPI_SUCCESS && (megabytes == 0 || message->room_bytes == 0)) {
        code = start_part(end, own, megabytes * MEGABYTE, rest, MPI_BYTE);
    }
    if (code != MPI_SUCCESS) {
        withdraw_mpi(comm, message);
        return keep_error(end, code);
    }
    if (bytes >= MPI_MOVER_BYTES_MIN) {
        count_message(end, own, true);
    }
    return COMM_DONE;
}

/* Of a message whose size was not known: a long one has a second part. */
static int start_rest(struct mpi_end *end, struct mpi_message *own) {
    size_t left = own->message.room_bytes - own->arrived_bytes;
    bool is_long =
        own->message.room_bytes > 0 && own->part_count == 1 && own->arrived_bytes >= LONG_BYTES_MIN;
    return is_long ? start_part(end, own, own->arrived_bytes, left < MEGABYTE ? left : MEGABYTE, MPI_BYTE)
                   : MPI_SUCCESS;
}

/* Looks whether the next part is complete; false as long as the message is not. */
static bool test_message(struct mpi_end *end, struct mpi_message *own, enum comm_outcome *out) {
    while (own->done_count < own->part_count) {
        MPI_Status status;
        int is_done = 0;
        int code = MPI_Test(&own->requests[own->done_count], &is_done, &status);
        int class = MPI_SUCCESS;
        if (code != MPI_SUCCESS) {
            MPI_Error_class(code, &class);
        }
        if (code != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) {
            own->done_count = own->part_count;
            *out = keep_error(end, code);
            return true;
        }
        if (!is_done && code == MPI_SUCCESS) {
            return false;
        }
        own->done_count++;
        MPI_Count bytes = 0;
        if (!own->message.is_send && MPI_Get_elements_x(&status, MPI_BYTE, &bytes) == MPI_SUCCESS) {
            own->arrived_bytes += (size_t)bytes;
        }
        own->message.arrived_bytes = own->arrived_bytes;
        if (class == MPI_ERR_TRUNCATE) {
            *out = COMM_WRONG_SIZE;
            return true;
        }
        code = start_rest(end, own);
        if (code != MPI_SUCCESS) {
            *out = keep_error(end, code);
            return true;
        }
    }
    bool has_known_size = !own->message.is_send && own->message.room_bytes == 0;
    *out = has_known_size && own->arrived_bytes != own->message.bytes ? COMM_WRONG_SIZE : COMM_DONE;
    return true;
}

/* Takes a reason that another rank has sent. */
static void look_for_abort(struct mpi_end *end) {
    int tag = end->first_tag + TAG_ABORT;
    int has_come = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &has_come, &status) != MPI_SUCCESS || !has_come) {
        return;
    }
    char reason[COMM_REASON_BYTES] = "";
    MPI_Recv(reason, sizeof reason, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD, &status);
    reason[sizeof reason - 1] = '\0';
    comm_mark_aborted(&end->comm, reason);
}

/* Gives the core away for a while that fits how long the wait has taken. */
static void rest(double waited, double left) {
    if (waited < awake_seconds) {
        sched_yield();
        return;
    }
    double seconds = waited * sleep_part;
    seconds = seconds < sleep_seconds_max ? seconds : sleep_seconds_max;
    seconds = seconds < left ? seconds : left;
    struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

static enum comm_outcome poll_until_done(struct mpi_end *end, struct mpi_message *own, double until) {
    struct comm *comm = &end->comm;
    enum comm_outcome outcome;
    double started = clock_seconds();
    while (!test_message(end, own, &outcome)) {
        double now = clock_seconds();
        if (now - started >= awake_seconds) {
            look_for_abort(end);
        }
        if (comm_is_aborted(comm) || now >= until) {
            end->has_lost_peer = true;
            return comm_is_aborted(comm) ? COMM_ABORTED : COMM_EXPIRED;
        }
        rest(now - started, until - now);
    }
    return outcome;
}

static enum comm_outcome wait_mpi(struct comm *comm, struct comm_message *message, double until) {
    struct mpi_end *end = end_of(comm);
    struct mpi_message *own = (struct mpi_message *)message;
    mpi_mover_count_wait(end->mover, 1);
    enum comm_outcome outcome = poll_until_done(end, own, until);
    mpi_mover_count_wait(end->mover, -1);
    if (outcome != COMM_DONE) {
        withdraw_mpi(comm, message);
    }
    count_message(end, own, false);
    return outcome;
}

/* A receive is cancelled, and given a moment if it is under way. What a peer reads cannot be taken back. */
static void withdraw_mpi(struct comm *comm, struct comm_message *message) {
    struct mpi_message *own = (struct mpi_message *)message;
    double until = clock_seconds() + withdraw_seconds;
    count_message(end_of(comm), own, false);
    for (; own->done_count < own->part_count; own->done_count++) {
        MPI_Request *request = &own->requests[own->done_count];
        int is_done = 0;
        if (!message->is_send) {
            MPI_Cancel(request);
        }
        while (MPI_Test(request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_done &&
               clock_seconds() < until && !message->is_send) {
            sched_yield();
        }
        if (!is_done && *request != MPI_REQUEST_NULL) {
            MPI_Request_free(request);
        }
    }
}

/* Each rank that hears of it stops waiting; nobody waits for them to hear. */
static void abort_mpi(struct comm *comm, const char *reason) {
    struct mpi_end *end = end_of(comm);
    if (comm_is_aborted(comm)) {
        return;
    }
    comm_mark_aborted(comm, reason);
    for (int rank = 0; rank < comm->size; rank++) {
        MPI_Request request;
        if (rank != comm->rank &&
            MPI_Isend(comm->abort_reason, COMM_REASON_BYTES, MPI_BYTE, end->world_ranks[rank],
                      end->first_tag + TAG_ABORT, MPI_COMM_WORLD, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
}

static void free_end(struct mpi_end *end) {
    /* A peer may not have read the reason yet. */
    bool is_read_by_others = comm_is_aborted(&end->comm);
    free(end->world_ranks);
    comm_deinit(&end->comm);
    if (!is_read_by_others) {
        free(end);
    }
}

static void destroy_mpi(struct comm *comm) {
    struct mpi_end *end = end_of(comm);
    if (end->is_world) {
        mpi_mover_stop(&end->mover);
    }
    if (end->is_world && !end->has_lost_peer && !comm_is_aborted(comm)) {
        MPI_Type_free(&end->megabytes);
        MPI_Finalize();
    }
    free_end(end);
}

static const struct comm_impl impl_mpi = {
    .name = "mpi",
    .message_bytes = sizeof(struct mpi_message),
    .start = start_mpi,
    .wait = wait_mpi,
    .withdraw = withdraw_mpi,
    .abort = abort_mpi,
    .destroy = destroy_mpi,
    .sum = comm_sum_host,
    .sum_scatter = comm_sum_scatter_host,
    .start_gather = comm_start_gather_host,
    .start_exchange = comm_start_exchange_host,
    .finish = comm_finish_host,
};

/* Own rank `rank` of `size`, as MPI numbers them. */
static enum status make_end(int rank, int size, int id, struct mpi_end **out) {
    struct mpi_end *end = calloc(1, sizeof *end);
    CHECK_MEMORY(end);
    end->first_tag = id * TAGS_PER_GROUP;
    enum status status = comm_init(&end->comm, &impl_mpi, rank, size);
    if (status == STATUS_OK) {
        end->world_ranks = calloc((size_t)size, sizeof *end->world_ranks);
        status = end->world_ranks != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    }
    if (status != STATUS_OK) {
        free_end(end);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    *out = end;
    return STATUS_OK;
}

/* MPI_Init waits for the others however long they take, and nothing ends that: another thread calls it. */
struct mpi_start {
    int code;
    int thread_level;
};

static void *call_init(void *context) {
    struct mpi_start *start = context;
    start->code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &start->thread_level);
    return NULL;
}

/* What a thread that does not come back works with is left to it. */
static enum status call_init_in_time(double seconds, struct mpi_start *out) {
    pthread_t thread;
    struct timespec moment;
    struct mpi_start *start = calloc(1, sizeof *start);
    CHECK_MEMORY(start);
    clock_gettime(CLOCK_MONOTONIC, &moment);
    moment.tv_sec += (time_t)seconds + 1;
    int error = pthread_create(&thread, NULL, call_init, start);
    if (error != 0) {
        free(start);
        FAIL(STATUS_OUT_OF_MEMORY, "a thread that starts MPI cannot be started (error %d)", error);
    }
    CHECK(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &moment) == 0, STATUS_PEER_LOST,
          "a process of this job has not come within %.1f s of the start: see whether all of them run this "
          "program and join",
          seconds);
    *out = *start;
    free(start);
    return STATUS_OK;
}

static enum status init_mpi(double seconds) {
    int is_started = 0;
    struct mpi_start start;
    CHECK(MPI_Initialized(&is_started) == MPI_SUCCESS && !is_started, STATUS_INTERNAL,
          "MPI was started twice; a process can do that once");
    TRY(call_init_in_time(seconds, &start));
    CHECK(
        start.code == MPI_SUCCESS, STATUS_PEER_LOST,
        "MPI could not start; start the ranks with mpirun of the Open MPI that this program was built with");
    CHECK(start.thread_level == MPI_THREAD_MULTIPLE, STATUS_UNSUPPORTED,
          "this MPI allows only one thread to call it; install an Open MPI with MPI_THREAD_MULTIPLE");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return STATUS_OK;
}

enum status comm_mpi_start(double seconds, struct comm **world) {
    *world = NULL;
    TRY(init_mpi(seconds));
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct mpi_end *end;
    TRY(make_end(rank, size, 0, &end));
    end->is_world = true;
    for (int i = 0; i < size; i++) {
        end->world_ranks[i] = i;
    }
    MPI_Type_contiguous(MEGABYTE, MPI_BYTE, &end->megabytes);
    MPI_Type_commit(&end->megabytes);
    *world = &end->comm;
    return STATUS_OK;
}

enum status comm_mpi_keep_moving(struct comm *world) {
    struct mpi_end *end = end_of(world);
    return end->mover != NULL ? STATUS_OK : mpi_mover_start(&end->mover);
}

enum status comm_mpi_group(struct comm *world, const int *ranks, int count, int id, struct comm **out) {
    *out = NULL;
    int own = -1;
    for (int i = 0; i < count; i++) {
        CHECK(ranks[i] >= 0 && ranks[i] < world->size, STATUS_BAD_ARGUMENT,
              "a group cannot have rank %d, there are %d ranks; check the layout", ranks[i], world->size);
        own = ranks[i] == world->rank ? i : own;
    }
    CHECK(own >= 0, STATUS_BAD_ARGUMENT, "rank %d makes a group that it is not in; check the layout",
          world->rank);
    CHECK(id > 0 && id < COMM_MPI_GROUP_IDS, STATUS_BAD_ARGUMENT,
          "a group has an id from 1 to %d, not %d; check the layout", COMM_MPI_GROUP_IDS - 1, id);
    if (count == 1) {
        TRY(comm_self_create(out));
        return STATUS_OK;
    }
    struct mpi_end *end;
    TRY(make_end(own, count, id, &end));
    memcpy(end->world_ranks, ranks, (size_t)count * sizeof *ranks);
    end->megabytes = end_of(world)->megabytes;
    end->mover = end_of(world)->mover;
    *out = &end->comm;
    return STATUS_OK;
}
