/*
 * A group put together of others, as of two ranks in one process and the rest elsewhere: it does what every
 * group does, sizes, orders and sentences are its own, and an abort wakes whoever waits, whatever part it
 * waits in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/comm_cases.h"
#include "comm/comm_joint.h"
#include "comm/comm_threads.h"

enum { SIZE = 4, RANDOM_COUNT = 3000 };

static const double deadline_seconds = 30;

struct rank {
    pthread_t thread;
    struct comm *comm;
    int (*main)(struct comm *comm);
    int failure_count;
};

/*
 * Ranks 0 and 1 are near: 0 meets 2 and 3 in one group, 1 meets them in another, in which the first rank is
 * the near one. What stands for processes here is threads.
 */
static void make_ends(struct comm **ends) {
    struct comm *near[2];
    struct comm *far[2][SIZE - 1];
    assert_int_equal(comm_threads_create(2, near), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(comm_threads_create(SIZE - 1, far[i]), STATUS_OK);
    }
    for (int rank = 0; rank < SIZE; rank++) {
        struct comm_route routes[SIZE];
        struct comm_joint_options options = {.rank = rank, .size = SIZE, .routes = routes};
        for (int peer = 0; peer < SIZE; peer++) {
            if (rank < 2) {
                routes[peer] = peer < 2 ? (struct comm_route){0, peer} : (struct comm_route){1, peer - 1};
            } else {
                routes[peer] = peer == 0 ? (struct comm_route){0, 0} : (struct comm_route){1, peer - 1};
            }
        }
        options.parts[0] = rank < 2 ? near[rank] : far[0][rank - 1];
        options.parts[1] = rank < 2 ? far[rank][0] : far[1][rank - 1];
        options.also_aborted = rank < 2 ? far[1 - rank][0] : NULL;
        assert_int_equal(comm_joint_create(&options, &ends[rank]), STATUS_OK);
    }
}

/* Others of the process may still abort a part of an end that has nothing to do any more: all leave together.
 */
static void *run_rank(void *argument) {
    struct rank *rank = argument;
    comm_set_deadline(rank->comm, deadline_seconds);
    comm_set_name(rank->comm, "leader and ranks");
    rank->failure_count = rank->main(rank->comm);
    return NULL;
}

static void run_group(int (*main)(struct comm *comm)) {
    struct comm *ends[SIZE];
    struct rank ranks[SIZE];
    int failure_count = 0;
    make_ends(ends);
    for (int i = 0; i < SIZE; i++) {
        ranks[i] = (struct rank){.comm = ends[i], .main = main};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < SIZE; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
        failure_count += ranks[i].failure_count;
    }
    for (int i = 0; i < SIZE; i++) {
        comm_destroy(&ends[i]);
    }
    assert_int_equal(failure_count, 0);
}

static int run_all_cases(struct comm *comm) {
    return all_cases(comm, 200);
}

static int run_random(struct comm *comm) {
    return case_random(comm, 5, RANDOM_COUNT);
}

static void does_what_every_group_does(void **state) {
    (void)state;
    run_group(run_all_cases);
    run_group(run_random);
}

/* Everyone but rank `aborting_rank`, which ends the group, waits: for the near one, or for one that is far.
 */
static int aborting_rank;

static int run_abort(struct comm *comm) {
    int failure_count = 0;
    double started = clock_seconds();
    struct comm_request request = {NULL};
    int rank = comm_rank(comm);
    char byte;
    if (rank == aborting_rank) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        comm_abort(comm, "stage 1 is on fire");
        return failure_count;
    }
    int peer = aborting_rank > 1 && rank < 2 ? aborting_rank : rank < 2 ? 1 - rank : (aborting_rank + 1) % 2;
    EXPECT(comm_start_receive(comm, NULL, peer, &byte, 1, &request) == STATUS_OK);
    EXPECT(comm_wait(comm, &request) == STATUS_PEER_LOST);
    EXPECT(strstr(error_last()->message, "stage 1 is on fire") != NULL);
    EXPECT(strstr(error_last()->message, "of 4 (leader and ranks)") != NULL);
    EXPECT(comm_start_receive(comm, NULL, peer, &byte, 1, &request) == STATUS_PEER_LOST);
    EXPECT(clock_seconds() - started < deadline_seconds / 2);
    return failure_count;
}

static void an_abort_wakes_everybody(void **state) {
    (void)state;
    for (aborting_rank = 0; aborting_rank < SIZE; aborting_rank++) {
        run_group(run_abort);
    }
}

/* A sentence has the numbers of the whole group, whatever those of the part are. */
static int run_missing(struct comm *comm) {
    int failure_count = 0;
    struct comm_request request = {NULL};
    char bytes[7];
    if (comm_rank(comm) == 3) {
        comm_set_deadline(comm, 0.05);
        EXPECT(comm_start_receive(comm, NULL, 1, bytes, sizeof bytes, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_PEER_LOST);
        EXPECT(strstr(error_last()->message, "rank 3 of 4 (leader and ranks) waited") != NULL);
        EXPECT(strstr(error_last()->message, "for rank 1 to send 7 bytes") != NULL);
    }
    return failure_count;
}

static void sentences_have_its_numbers(void **state) {
    (void)state;
    run_group(run_missing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_what_every_group_does),
        cmocka_unit_test(an_abort_wakes_everybody),
        cmocka_unit_test(sentences_have_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
