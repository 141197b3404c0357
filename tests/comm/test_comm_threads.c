/* Ranks as threads, and a group of one: all cases, and what goes wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/device_cpu.h"
#include "backends/guard/device_guard.h"
#include "base/clock.h"
#include "comm/comm_cases.h"
#include "comm/comm_impl.h"
#include "comm/comm_threads.h"

enum { SIZE_MAX_TESTED = 9, RANDOM_COUNT = 10000 };

/* What a rank does; returns its failures. `context` is shared by all. */
typedef int rank_main(struct comm *comm, void *context);

struct rank {
    pthread_t thread;
    struct comm *comm;
    rank_main *main;
    void *context;
    int failure_count;
};

/* A rank that fails keeps the others waiting: not for ever. */
static const double first_deadline_seconds = 30;

static void *run_rank(void *argument) {
    struct rank *rank = argument;
    comm_set_deadline(rank->comm, first_deadline_seconds);
    rank->failure_count = rank->main(rank->comm, rank->context);
    comm_destroy(&rank->comm);
    return NULL;
}

/* Runs the ranks of a group, each in its thread, until all have ended; none may have failures. */
static void run_group(int size, rank_main *main, void *context) {
    struct comm *ends[SIZE_MAX_TESTED];
    struct rank ranks[SIZE_MAX_TESTED];
    assert_int_equal(comm_threads_create(size, ends), STATUS_OK);
    for (int i = 0; i < size; i++) {
        ranks[i] = (struct rank){.comm = ends[i], .main = main, .context = context};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    int failure_count = 0;
    for (int i = 0; i < size; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
        assert_null(ranks[i].comm);
        failure_count += ranks[i].failure_count;
    }
    assert_int_equal(failure_count, 0);
}

static void sleep_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

static int run_all_cases(struct comm *comm, void *context) {
    return all_cases(comm, *(int *)context);
}

static void test_all_cases_hold_for_every_size(void **state) {
    (void)state;
    int random_count = 200;
    for (int size = 1; size <= SIZE_MAX_TESTED; size++) {
        run_group(size, run_all_cases, &random_count);
    }
}

static int run_random(struct comm *comm, void *context) {
    return case_random(comm, *(uint64_t *)context, RANDOM_COUNT);
}

static void test_many_random_operations_hold(void **state) {
    (void)state;
    static const int sizes[] = {2, 3, 4};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t seed = i * 1000000;
        run_group(sizes[i], run_random, &seed);
    }
}

static int run_long_message(struct comm *comm, void *context) {
    (void)context;
    return case_long_message(comm);
}

static int run_idle_root(struct comm *comm, void *context) {
    (void)context;
    return case_idle_root(comm);
}

static void test_ranks_wait_for_work_without_deadline(void **state) {
    (void)state;
    run_group(3, run_idle_root, NULL);
}

static void test_long_message_arrives(void **state) {
    (void)state;
    run_group(2, run_long_message, NULL);
}

static void test_group_of_one_does_the_same(void **state) {
    (void)state;
    struct comm *comm;
    struct comm_request request;
    assert_int_equal(comm_self_create(&comm), STATUS_OK);
    assert_int_equal(comm_size(comm), 1);
    assert_int_equal(all_cases(comm, 200), 0);
    assert_int_equal(comm_sent_bytes(comm), 0);
    request = (struct comm_request){NULL};
    assert_int_equal(comm_wait(comm, &request), STATUS_OK);
    comm_abort(comm, "enough");
    assert_int_equal(comm_barrier(comm), STATUS_PEER_LOST);
    assert_non_null(strstr(error_last()->message, "enough"));
    comm_destroy(&comm);
    assert_null(comm);
    comm_destroy(&comm);
}

struct counter {
    atomic_int count;
};

/* Nobody leaves a barrier before the last one has come, and the next one does not mix with it. */
static int run_barriers(struct comm *comm, void *context) {
    struct counter *counter = context;
    int failure_count = 0;
    for (int round = 1; round <= 200; round++) {
        if (round % comm_size(comm) == comm_rank(comm) && round % 10 == 0) {
            sleep_seconds(0.001);
        }
        atomic_fetch_add(&counter->count, 1);
        EXPECT(comm_barrier(comm) == STATUS_OK);
        EXPECT(atomic_load(&counter->count) >= round * comm_size(comm));
        EXPECT(comm_barrier(comm) == STATUS_OK);
        EXPECT(atomic_load(&counter->count) <= (round + 1) * comm_size(comm));
    }
    return failure_count;
}

static void test_barrier_waits_for_all(void **state) {
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct counter counter = {.count = 0};
        run_group(size, run_barriers, &counter);
    }
}

static const double deadline_seconds = 0.2;
static const double margin_seconds = 5; /* the machine may be busy; without a deadline the wait never ends */

/* Rank 2 never comes until the others have given up. */
static int run_without_rank_2(struct comm *comm, void *context) {
    struct counter *lost = context;
    int failure_count = 0;
    float values[6] = {0};
    double started = clock_seconds();
    comm_set_deadline(comm, deadline_seconds);
    comm_set_name(comm, "tensor group of stage 1");
    if (comm_rank(comm) == 2) {
        while (atomic_load(&lost->count) < comm_size(comm) - 1 &&
               clock_seconds() - started < margin_seconds) {
            sleep_seconds(0.001);
        }
        return 0;
    }
    size_t offsets[] = {0, 4, 8, 24};
    EXPECT(comm_gather(comm, NULL, values, offsets, values) == STATUS_PEER_LOST);
    EXPECT(strstr(error_last()->message, "comm_gather for rank 2 to send 16 bytes") != NULL);
    EXPECT(strstr(error_last()->message, comm_rank(comm) == 0
                                             ? "rank 0 of 3 (tensor group of stage 1)"
                                             : "rank 1 of 3 (tensor group of stage 1)") != NULL);
    EXPECT(clock_seconds() - started >= deadline_seconds);
    EXPECT(clock_seconds() - started < deadline_seconds + margin_seconds);
    atomic_fetch_add(&lost->count, 1);
    return failure_count;
}

/* Spec parallelism D-5: every wait has a deadline, and its report says who, where and how much. */
static void test_missing_rank_is_reported_in_time(void **state) {
    (void)state;
    struct counter lost = {.count = 0};
    run_group(3, run_without_rank_2, &lost);
    assert_int_equal(lost.count, 2);
}

/* Rank 1 receives nothing: the send waits until its deadline and its memory is its owner's again. */
static int run_unwanted_send(struct comm *comm, void *context) {
    struct counter *lost = context;
    int failure_count = 0;
    struct comm_request request;
    comm_set_deadline(comm, deadline_seconds);
    if (comm_rank(comm) == 0) {
        unsigned char *memory = calloc(1, 100);
        EXPECT(comm_start_send(comm, NULL, 1, memory, 100, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_PEER_LOST);
        EXPECT(strstr(error_last()->message, "comm_wait for rank 1 to take 100 bytes") != NULL);
        free(memory);
        atomic_fetch_add(&lost->count, 1);
    } else {
        unsigned char memory[100];
        while (atomic_load(&lost->count) == 0) {
            sleep_seconds(0.001);
        }
        EXPECT(comm_start_receive(comm, NULL, 0, memory, 100, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_PEER_LOST);
    }
    return failure_count;
}

static void test_send_without_receiver_ends_in_time(void **state) {
    (void)state;
    struct counter lost = {.count = 0};
    run_group(2, run_unwanted_send, &lost);
}

/* Rank 0's send ends although rank 1 only starts to receive, before or after it, and waits much later. */
static int run_without_waiting_receiver(struct comm *comm, void *context) {
    struct counter *step = context;
    int failure_count = 0;
    struct comm_request requests[2];
    unsigned char memory[2] = {11, 22};
    comm_set_deadline(comm, deadline_seconds + margin_seconds);
    if (comm_rank(comm) == 0) {
        EXPECT(comm_start_send(comm, NULL, 1, &memory[0], 1, &requests[0]) == STATUS_OK);
        atomic_store(&step->count, 1);
        EXPECT(comm_wait(comm, &requests[0]) == STATUS_OK);
        while (atomic_load(&step->count) < 2) {
            sleep_seconds(0.001);
        }
        EXPECT(comm_start_send(comm, NULL, 1, &memory[1], 1, &requests[1]) == STATUS_OK);
        EXPECT(comm_wait(comm, &requests[1]) == STATUS_OK);
        atomic_store(&step->count, 3);
        return failure_count;
    }
    while (atomic_load(&step->count) < 1) {
        sleep_seconds(0.001);
    }
    memset(memory, 0, sizeof memory);
    for (int i = 0; i < 2; i++) {
        EXPECT(comm_start_receive(comm, NULL, 0, &memory[i], 1, &requests[i]) == STATUS_OK);
    }
    atomic_store(&step->count, 2);
    double started = clock_seconds();
    while (atomic_load(&step->count) < 3 && clock_seconds() - started < deadline_seconds + margin_seconds) {
        sleep_seconds(0.001);
    }
    EXPECT(atomic_load(&step->count) == 3);
    EXPECT(comm_wait(comm, &requests[0]) == STATUS_OK);
    EXPECT(comm_wait(comm, &requests[1]) == STATUS_OK);
    EXPECT(memory[0] == 11 && memory[1] == 22);
    return failure_count;
}

static void test_send_needs_no_waiting_receiver(void **state) {
    (void)state;
    struct counter step = {.count = 0};
    run_group(2, run_without_waiting_receiver, &step);
}

/* All but rank 0 wait for it; it ends the group instead. */
static int run_abort(struct comm *comm, void *context) {
    (void)context;
    int failure_count = 0;
    double started = clock_seconds();
    if (comm_rank(comm) == 0) {
        sleep_seconds(0.05);
        comm_abort(comm, "stage 1 is on fire");
        comm_abort(comm, "too late");
    }
    float value = 1;
    EXPECT(comm_sum(comm, NULL, &value, 1) == STATUS_PEER_LOST);
    EXPECT(strstr(error_last()->message, "stage 1 is on fire") != NULL);
    EXPECT(comm_barrier(comm) == STATUS_PEER_LOST);
    EXPECT(strstr(error_last()->message, "comm_barrier") != NULL);
    EXPECT(clock_seconds() - started < margin_seconds);
    return failure_count;
}

static void test_abort_wakes_everybody(void **state) {
    (void)state;
    for (int size = 2; size <= 5; size++) {
        run_group(size, run_abort, NULL);
    }
}

/* Rank 0 leaves with a message that nobody took; the others need not wait for their deadline. */
static int run_leave(struct comm *comm, void *context) {
    (void)context;
    int failure_count = 0;
    double started = clock_seconds();
    struct comm_request request;
    static const unsigned char memory[8];
    if (comm_rank(comm) == 0) {
        EXPECT(comm_start_send(comm, NULL, 1, memory, sizeof memory, &request) == STATUS_OK);
        return failure_count;
    }
    float values[3] = {0};
    EXPECT(comm_sum(comm, NULL, values, 3) == STATUS_PEER_LOST);
    EXPECT(strstr(error_last()->message, "has given up") != NULL);
    EXPECT(clock_seconds() - started < margin_seconds);
    return failure_count;
}

static void test_rank_that_left_is_noticed_at_once(void **state) {
    (void)state;
    run_group(3, run_leave, NULL);
}

static double thread_cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int run_idle(struct comm *comm, void *context) {
    (void)context;
    int failure_count = 0;
    const double idle_seconds = 0.5;
    if (comm_rank(comm) == 0) {
        sleep_seconds(idle_seconds);
    }
    double before = thread_cpu_seconds();
    EXPECT(comm_barrier(comm) == STATUS_OK);
    EXPECT(thread_cpu_seconds() - before < 0.05 * idle_seconds);
    return failure_count;
}

static void test_idle_ranks_sleep(void **state) {
    (void)state;
    run_group(4, run_idle, NULL);
}

/* The device's memory may be touched in kernels, copies and by communicators only. */
static int run_on_guard(struct comm *comm, void *context) {
    struct device *device = context;
    struct stream *stream;
    void *memory[2];
    int failure_count = 0;
    enum { COUNT = 5000 };
    size_t bytes = COUNT * sizeof(float);
    static const float one = 1;
    struct comm_request requests[2];
    int other = 1 - comm_rank(comm);
    float values[COUNT];
    EXPECT(device_stream_create(device, &stream) == STATUS_OK);
    for (int i = 0; i < 2; i++) {
        EXPECT(device_memory_alloc(device, bytes, &memory[i]) == STATUS_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        values[i] = one;
    }
    EXPECT(stream_copy_to_device(stream, memory[0], values, bytes) == STATUS_OK);
    EXPECT(comm_sum(comm, stream, memory[0], COUNT) == STATUS_OK);
    EXPECT(comm_start_send(comm, stream, other, memory[0], bytes, &requests[0]) == STATUS_OK);
    EXPECT(comm_start_receive(comm, stream, other, memory[1], bytes, &requests[1]) == STATUS_OK);
    EXPECT(comm_wait(comm, &requests[0]) == STATUS_OK);
    EXPECT(comm_wait(comm, &requests[1]) == STATUS_OK);
    EXPECT(stream_copy_to_host(stream, values, memory[1], bytes) == STATUS_OK);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(values[i] == 2 * one);
    }
    for (int i = 0; i < 2; i++) {
        device_memory_free(device, &memory[i]);
    }
    device_stream_destroy(&stream);
    return failure_count;
}

static void test_guarded_memory_is_held_open(void **state) {
    (void)state;
    struct device *device;
    assert_int_equal(device_guard_create(&device), STATUS_OK);
    run_group(2, run_on_guard, device);
    device_destroy(&device);
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    run_group(2, run_on_guard, device);
    device_destroy(&device);
}

static int run_reserved(struct comm *comm, void *context) {
    (void)context;
    int failure_count = 0;
    static const int64_t counts[] = {1, 1000, 4096, 4097, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        float *values = calloc((size_t)counts[i], sizeof *values);
        int64_t share = (counts[i] + comm_size(comm) - 1) / comm_size(comm);
        EXPECT(comm_reserve_scratch(comm, comm_sum_scratch_bytes(comm_size(comm), counts[i], share)) ==
               STATUS_OK);
        size_t reserved_bytes = comm->scratch_bytes;
        EXPECT(comm_sum(comm, NULL, values, counts[i]) == STATUS_OK);
        EXPECT(comm->scratch_bytes == reserved_bytes);
        free(values);
    }
    return failure_count;
}

static void test_scratch_bound_suffices(void **state) {
    (void)state;
    for (int size = 1; size <= SIZE_MAX_TESTED; size++) {
        run_group(size, run_reserved, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_cases_hold_for_every_size),
        cmocka_unit_test(test_many_random_operations_hold),
        cmocka_unit_test(test_long_message_arrives),
        cmocka_unit_test(test_ranks_wait_for_work_without_deadline),
        cmocka_unit_test(test_group_of_one_does_the_same),
        cmocka_unit_test(test_barrier_waits_for_all),
        cmocka_unit_test(test_missing_rank_is_reported_in_time),
        cmocka_unit_test(test_send_without_receiver_ends_in_time),
        cmocka_unit_test(test_send_needs_no_waiting_receiver),
        cmocka_unit_test(test_abort_wakes_everybody),
        cmocka_unit_test(test_rank_that_left_is_noticed_at_once),
        cmocka_unit_test(test_idle_ranks_sleep),
        cmocka_unit_test(test_guarded_memory_is_held_open),
        cmocka_unit_test(test_scratch_bound_suffices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
