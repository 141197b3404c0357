/* Tasks: coalesced wake-ups, never on two threads at once, timers in their order, ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include <pthread.h>
#include <sched.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/task_queue.h"

static const double patience_seconds = 20.0;

struct counter {
    struct task task; /* first */
    atomic_int runs;
    atomic_int running; /* threads inside */
    atomic_int overlaps;
    atomic_int wanted; /* what was said before a wake-up */
    atomic_int seen;   /* the last that a run saw */
    int runs_until_end;
    atomic_bool is_over;
    _Atomic double moment;
};

static bool count_run(struct task *task) {
    struct counter *counter = (struct counter *)task;
    if (atomic_fetch_add(&counter->running, 1) > 0) {
        atomic_fetch_add(&counter->overlaps, 1);
    }
    atomic_store(&counter->seen, atomic_load(&counter->wanted));
    atomic_store(&counter->moment, clock_seconds());
    sched_yield();
    atomic_fetch_sub(&counter->running, 1);
    if (atomic_fetch_add(&counter->runs, 1) + 1 == counter->runs_until_end) {
        task_end(task);
        atomic_store(&counter->is_over, true);
        return false;
    }
    return true;
}

static void wait_for(const atomic_int *value, int least) {
    double start = clock_seconds();
    while (atomic_load(value) < least) {
        assert_true(clock_seconds() - start < patience_seconds);
        sched_yield();
    }
}

enum { WAKERS = 3, WAKES = 5000 };

static void *wake_often(void *context) {
    struct counter *counter = context;
    for (int i = 0; i < WAKES; i++) {
        atomic_fetch_add(&counter->wanted, 1);
        task_wake(&counter->task);
    }
    return NULL;
}

/* Whatever is said before a wake-up is seen by a run behind it, in far fewer runs than wake-ups. */
static void test_wake_ups(void **state) {
    (void)state;
    struct task_queue *queue;
    pthread_t threads[WAKERS];
    static struct counter counter;
    assert_int_equal(task_queue_create(4, &queue), STATUS_OK);
    task_init(&counter.task, queue, count_run);
    for (int i = 0; i < WAKERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, &counter), 0);
    }
    for (int i = 0; i < WAKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    wait_for(&counter.seen, WAKERS * WAKES);
    assert_int_equal(atomic_load(&counter.overlaps), 0);
    assert_true(atomic_load(&counter.runs) <= WAKERS * WAKES);
    task_queue_destroy(&queue);
}

/* Timers go off in the order of their moments, not before them; the later wish counts. */
static void test_timers(void **state) {
    (void)state;
    enum { TASKS = 100 };
    struct task_queue *queue;
    struct counter *counters = calloc(TASKS, sizeof *counters);
    double moments[TASKS];
    uint32_t random = 7;
    double start = clock_seconds();
    assert_int_equal(task_queue_create(1, &queue), STATUS_OK);
    for (size_t i = 0; i < TASKS; i++) {
        task_init(&counters[i].task, queue, count_run);
        assert_int_equal(task_wake_at(&counters[i].task, start + 1000.0), STATUS_OK);
    }
    for (size_t i = 0; i < TASKS; i++) {
        random = random * 1664525u + 1013904223u;
        moments[i] = start + 0.02 + 0.001 * (double)(random >> 24);
        assert_int_equal(task_wake_at(&counters[i].task, moments[i]), STATUS_OK);
    }
    for (size_t i = 0; i < TASKS; i++) {
        wait_for(&counters[i].runs, 1);
        assert_true(atomic_load(&counters[i].moment) >= moments[i]);
    }
    for (size_t i = 0; i < TASKS; i++) {
        for (size_t k = 0; k < TASKS; k++) {
            /* One thread takes them one after the other. */
            if (moments[i] + 0.05 < moments[k]) {
                assert_true(atomic_load(&counters[i].moment) <= atomic_load(&counters[k].moment));
            }
        }
        assert_int_equal(atomic_load(&counters[i].runs), 1);
    }
    task_queue_destroy(&queue);
    free(counters);
}

/* A task that is over does not run again, though it was woken and has a timer. */
static void test_end(void **state) {
    (void)state;
    struct task_queue *queue;
    struct counter ending = {.runs_until_end = 1};
    struct counter other = {.runs_until_end = 0};
    assert_int_equal(task_queue_create(2, &queue), STATUS_OK);
    task_init(&ending.task, queue, count_run);
    task_init(&other.task, queue, count_run);
    assert_int_equal(task_wake_at(&ending.task, clock_seconds() + 0.02), STATUS_OK);
    assert_int_equal(task_wake_at(&other.task, clock_seconds() + 0.05), STATUS_OK);
    task_wake(&ending.task);
    wait_for(&ending.runs, 1);
    wait_for(&other.runs, 1);
    assert_int_equal(atomic_load(&ending.runs), 1);
    task_queue_destroy(&queue);
    assert_int_equal(task_queue_create(0, &queue), STATUS_OUT_OF_RANGE);
    assert_null(queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wake_ups),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
