/* Looks for a message that nobody sends: MPI moves all others meanwhile. */
#include "comm/comm_mpi_mover.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum {
    LOOKS = 4, /* at a time: each takes one piece from every connection */
    REST_NANOSECONDS = 250000,
    LONG_REST_NANOSECONDS = 1000000, /* while a rank waits */
};

struct mpi_mover {
    pthread_t thread;
    atomic_int message_count;
    atomic_int wait_count;
    pthread_mutex_t mutex; /* guards is_stopping, and that message_count leaves 0 unseen */
    pthread_cond_t changed;
    bool is_stopping;
};

/* Until a message is under way; false if the thread is to end. */
static bool wait_for_messages(struct mpi_mover *mover) {
    pthread_mutex_lock(&mover->mutex);
    while (!mover->is_stopping && atomic_load(&mover->message_count) == 0) {
        pthread_cond_wait(&mover->changed, &mover->mutex);
    }
    bool goes_on = !mover->is_stopping;
    pthread_mutex_unlock(&mover->mutex);
    return goes_on;
}

/* What fails here fails in the wait for its message too, which says so. */
static void *move_messages(void *context) {
    struct mpi_mover *mover = context;
    while (wait_for_messages(mover)) {
        bool is_waited_for = atomic_load(&mover->wait_count) > 0;
        for (int look = 0; look < LOOKS && !is_waited_for; look++) {
            int has_come = 0;
            MPI_Iprobe(0, 0, MPI_COMM_SELF, &has_come, MPI_STATUS_IGNORE); /* nobody sends there */
        }
        struct timespec rest = {.tv_nsec = is_waited_for ? LONG_REST_NANOSECONDS : REST_NANOSECONDS};
        nanosleep(&rest, NULL);
    }
    return NULL;
}

enum status mpi_mover_start(struct mpi_mover **out) {
    *out = NULL;
    struct mpi_mover *mover = calloc(1, sizeof *mover);
    CHECK_MEMORY(mover);
    atomic_init(&mover->message_count, 0);
    atomic_init(&mover->wait_count, 0);
    pthread_mutex_init(&mover->mutex, NULL);
    pthread_cond_init(&mover->changed, NULL);
    int error = pthread_create(&mover->thread, NULL, move_messages, mover);
    if (error != 0) {
        free(mover);
        FAIL(STATUS_OUT_OF_MEMORY, "a thread that moves messages cannot be started (error %d)", error);
    }
    *out = mover;
    return STATUS_OK;
}

void mpi_mover_stop(struct mpi_mover **mover_pointer) {
    struct mpi_mover *mover = *mover_pointer;
    *mover_pointer = NULL;
    if (mover == NULL) {
        return;
    }
    pthread_mutex_lock(&mover->mutex);
    mover->is_stopping = true;
    pthread_cond_signal(&mover->changed);
    pthread_mutex_unlock(&mover->mutex);
    pthread_join(mover->thread, NULL);
    pthread_cond_destroy(&mover->changed);
    pthread_mutex_destroy(&mover->mutex);
    free(mover);
}

void mpi_mover_count_message(struct mpi_mover *mover, int change) {
    if (mover != NULL && atomic_fetch_add(&mover->message_count, change) == 0) {
        pthread_mutex_lock(&mover->mutex);
        pthread_cond_signal(&mover->changed);
        pthread_mutex_unlock(&mover->mutex);
    }
}

void mpi_mover_count_wait(struct mpi_mover *mover, int change) {
    if (mover != NULL) {
        atomic_fetch_add(&mover->wait_count, change);
    }
}
