/* Worker pools: each task once, all done at return, many runs, one thread, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/worker_pool.h"

enum { TASKS_MAX = 10000 };

struct tally {
    int done[TASKS_MAX]; /* not atomic: a task run twice, or read too early, shows under ThreadSanitizer */
    unsigned thread_count;
    _Atomic int wrong_worker_count;
};

static void count_task(void *context, size_t index, unsigned worker) {
    struct tally *tally = context;
    tally->done[index]++;
    if (worker >= tally->thread_count) {
        tally->wrong_worker_count++;
    }
}

static void test_each_task_runs_once(void **state) {
    (void)state;
    static struct tally tally;
    static const unsigned thread_counts[] = {1, 2, 3, 8, 33};
    static const size_t task_counts[] = {0, 1, 2, 3, 7, 64, 1000, TASKS_MAX};
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        struct worker_pool *pool = NULL;
        assert_int_equal(worker_pool_create(thread_counts[i], &pool), STATUS_OK);
        assert_int_equal(worker_pool_thread_count(pool), thread_counts[i]);
        for (size_t j = 0; j < sizeof task_counts / sizeof task_counts[0]; j++) {
            memset(&tally, 0, sizeof tally);
            tally.thread_count = thread_counts[i];
            worker_pool_run(pool, task_counts[j], count_task, &tally);
            for (size_t k = 0; k < TASKS_MAX; k++) {
                assert_int_equal(tally.done[k], k < task_counts[j]);
            }
            assert_int_equal(tally.wrong_worker_count, 0);
        }
        worker_pool_destroy(&pool);
        assert_null(pool);
        worker_pool_destroy(&pool);
    }
}

static void add_index(void *context, size_t index, unsigned worker) {
    (void)worker;
    ((size_t *)context)[index] += index + 1;
}

static void test_many_short_runs(void **state) {
    (void)state;
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(4, &pool), STATUS_OK);
    size_t sums[5] = {0};
    for (int run = 0; run < 5000; run++) {
        worker_pool_run(pool, 5, add_index, sums);
        /* A run must be complete when it returns, so that the next may read it. */
        assert_int_equal(sums[run % 5], (size_t)(run + 1) * (size_t)(run % 5 + 1));
    }
    worker_pool_destroy(&pool);
}

struct meeting {
    _Atomic int arrived_count;
    _Atomic int missed_count;
};

/* Ends only when both tasks are under way, thus on two threads at once. */
static void meet(void *context, size_t index, unsigned worker) {
    (void)index;
    (void)worker;
    struct meeting *meeting = context;
    meeting->arrived_count++;
    double limit = clock_seconds() + 20;
    while (meeting->arrived_count < 2) {
        if (clock_seconds() > limit) {
            meeting->missed_count++;
            return;
        }
        sched_yield();
    }
}

static void test_tasks_run_at_the_same_time(void **state) {
    (void)state;
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(2, &pool), STATUS_OK);
    struct meeting meeting = {0};
    worker_pool_run(pool, 2, meet, &meeting);
    assert_int_equal(meeting.arrived_count, 2);
    assert_int_equal(meeting.missed_count, 0);
    worker_pool_destroy(&pool);
}

struct late_end {
    struct meeting meeting;
    int done; /* not atomic: set late by the worker, read by the caller after the run */
};

static void meet_and_end_late(void *context, size_t index, unsigned worker) {
    struct late_end *late_end = context;
    meet(&late_end->meeting, index, worker);
    if (worker != 0) {
        usleep(50 * 1000);
        late_end->done = 1;
    }
}

static void test_run_waits_for_a_slow_worker(void **state) {
    (void)state;
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(2, &pool), STATUS_OK);
    struct late_end late_end = {0};
    worker_pool_run(pool, 2, meet_and_end_late, &late_end);
    assert_int_equal(late_end.done, 1);
    worker_pool_destroy(&pool);
}

static double processor_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void test_workers_sleep_between_runs(void **state) {
    (void)state;
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(8, &pool), STATUS_OK);
    size_t sums[5] = {0};
    worker_pool_run(pool, 5, add_index, sums);
    double before = processor_seconds();
    usleep(200 * 1000);
    /* Seven spinning workers would use at least one core for the whole time. */
    assert_true(processor_seconds() - before < 0.1);
    worker_pool_destroy(&pool);
}

/* Pauses of every length between runs: workers are met spinning, yielding, asleep and on their way there. */
static void test_runs_after_pauses(void **state) {
    (void)state;
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(3, &pool), STATUS_OK);
    size_t sums[5] = {0};
    for (int run = 0; run < 600; run++) {
        worker_pool_run(pool, 5, add_index, sums);
        assert_int_equal(sums[run % 5], (size_t)(run + 1) * (size_t)(run % 5 + 1));
        double end = clock_seconds() + (double)(run % 40) * 10e-6;
        while (clock_seconds() < end) {
        }
    }
    worker_pool_destroy(&pool);
}

/* Workers may be bound to cores, the caller may not: threads that it starts would inherit it. */
static void test_the_caller_keeps_its_affinity(void **state) {
    (void)state;
    cpu_set_t before;
    cpu_set_t after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(worker_pool_cores_allowed(), &pool), STATUS_OK);
    size_t sums[5] = {0};
    /* Many rounds: the system may move the caller away by itself. */
    for (size_t round = 0; round < 30 * CPU_SETSIZE; round++) {
        size_t cpu = round % CPU_SETSIZE;
        if (!CPU_ISSET(cpu, &before)) {
            continue;
        }
        /* Put the caller on each processor in turn: at most one of them is not a worker's. */
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
        worker_pool_run(pool, 5, add_index, sums);
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&before, &after));
    }
    worker_pool_destroy(&pool);
}

static void test_destroy_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct worker_pool *pool = NULL;
        assert_int_equal(worker_pool_create(3, &pool), STATUS_OK);
        worker_pool_destroy(&pool);
    }
}

static void test_thread_count_has_bounds(void **state) {
    (void)state;
    struct worker_pool *pool = NULL;
    assert_int_equal(worker_pool_create(0, &pool), STATUS_BAD_ARGUMENT);
    assert_int_equal(worker_pool_create(1025, &pool), STATUS_BAD_ARGUMENT);
    assert_string_equal(error_last()->message, "a worker pool has 1 to 1024 threads, not 1025");
    assert_null(pool);
}

static void test_cores_allowed_follow_the_affinity(void **state) {
    (void)state;
    unsigned cores = worker_pool_cores_allowed();
    assert_true(cores >= 1);
    assert_true(cores <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(worker_pool_cores_allowed(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: it must see the mask as it was before any pool. */
        cmocka_unit_test(test_the_caller_keeps_its_affinity),
        cmocka_unit_test(test_each_task_runs_once),
        cmocka_unit_test(test_many_short_runs),
        cmocka_unit_test(test_tasks_run_at_the_same_time),
        cmocka_unit_test(test_run_waits_for_a_slow_worker),
        cmocka_unit_test(test_workers_sleep_between_runs),
        cmocka_unit_test(test_runs_after_pauses),
        cmocka_unit_test(test_destroy_at_once),
        cmocka_unit_test(test_thread_count_has_bounds),
        cmocka_unit_test(test_cores_allowed_follow_the_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
