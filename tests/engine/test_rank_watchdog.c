/*
 * A rank that gets nowhere is named in time, with where it is (spec parallelism D-5, F-1); one that computes
 * long, waits for one that does, or has nothing to do is left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comm/comm_threads.h"
#include "engine/rank_watchdog.h"

enum { RANKS = 2 };

static const double deadline_seconds = 0.5; /* a busy machine may not run a thread for a moment */
static const double patience_seconds = 20;

struct world {
    struct rank_pulse pulses[RANKS];
    struct executor_ranks ranks[RANKS];
    struct rank_watchdog *watchdog;
};

/* Two stages past their first ticks, or in them; the first one has the pool. */
static void open_world(struct world *world, uint64_t tick, const struct worker_pool *pool) {
    struct watched_member members[RANKS];
    struct comm *ends[RANKS];
    memset(world, 0, sizeof *world);
    assert_int_equal(comm_threads_create(RANKS, ends), STATUS_OK);
    world->pulses[0].pool = pool;
    for (int i = 0; i < RANKS; i++) {
        world->ranks[i] = (struct executor_ranks){
            .control = ends[i], .number = i, .stage = i, .stage_count = RANKS, .replica_count = 1};
        atomic_store(&world->pulses[i].wait.tick, tick);
        members[i] = (struct watched_member){.pulse = &world->pulses[i], .ranks = &world->ranks[i]};
    }
    assert_int_equal(rank_watchdog_start(members, RANKS, deadline_seconds, &world->watchdog), STATUS_OK);
}

static void close_world(struct world *world) {
    rank_watchdog_stop(&world->watchdog);
    for (int i = 0; i < RANKS; i++) {
        comm_destroy(&world->ranks[i].control);
    }
}

static void sleep_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* How it ends for all ranks: an abort. */
static void expect_sentence(struct world *world, const char *part) {
    double until = clock_seconds() + patience_seconds;
    while (!rank_watchdog_is_hanging(world->watchdog) && clock_seconds() < until) {
        sleep_seconds(0.01);
    }
    assert_true(rank_watchdog_is_hanging(world->watchdog));
    for (int i = 0; i < RANKS; i++) {
        while (comm_barrier(world->ranks[i].control) != STATUS_PEER_LOST) {
            assert_true(clock_seconds() < until);
        }
        if (strstr(error_last()->message, part) == NULL) {
            fail_msg("<%s> has no <%s>", error_last()->message, part);
        }
    }
}

static void expect_peace(struct world *world) {
    assert_false(rank_watchdog_is_hanging(world->watchdog));
    close_world(world);
}

static void who_hangs_is_named(void **state) {
    struct world world;
    (void)state;
    open_world(&world, 57, NULL);
    world.pulses[0].wait.operation = "comm_wait";
    world.pulses[0].is_working = true;
    world.pulses[1].ops.op = 1 + OP_MOE_EXPERTS;
    world.pulses[1].is_working = true;
    expect_sentence(&world, "rank 1 of 2 (stage 1 of 2, tick 57, in moe_experts) has not got on for ");
    world.pulses[1].is_working = false; /* it has come back after all */
    assert_false(rank_watchdog_is_hanging(world.watchdog));
    close_world(&world);
}

static void who_gets_on_is_left_alone(void **state) {
    struct world world;
    struct worker_pool *pool;
    (void)state;
    assert_int_equal(worker_pool_create(1, &pool), STATUS_OK);
    open_world(&world, 57, pool);
    world.pulses[0].is_working = true; /* begins operations, then tasks of one */
    world.pulses[1].wait.operation = "comm_gather";
    world.pulses[1].is_working = true; /* waits for it all the while */
    for (int i = 0; i < 25; i++) {
        sleep_seconds(deadline_seconds / 10);
        world.pulses[0].ops.count++;
    }
    expect_peace(&world);
    worker_pool_destroy(&pool);
}

static void sleep_at_task(void *context, size_t index, unsigned worker) {
    (void)context;
    (void)index;
    (void)worker;
    sleep_seconds(deadline_seconds / 10);
}

static void a_long_kernel_is_left_alone(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct world world;
        struct worker_pool *pool;
        assert_int_equal(worker_pool_create(threads, &pool), STATUS_OK);
        open_world(&world, 57, pool);
        world.pulses[0].is_working = true;
        worker_pool_run(pool, 25 * threads, sleep_at_task, NULL);
        expect_peace(&world);
        worker_pool_destroy(&pool);
    }
}

static void who_has_nothing_to_do_is_left_alone(void **state) {
    struct world world;
    (void)state;
    open_world(&world, 57, NULL);
    world.pulses[0].wait.operation = "comm_wait"; /* for a plan */
    sleep_seconds(2.5 * deadline_seconds);
    expect_peace(&world);
}

static void first_ticks_may_read_weights(void **state) {
    struct world world;
    (void)state;
    open_world(&world, 7, NULL);
    world.pulses[1].is_working = true;
    sleep_seconds(2.5 * deadline_seconds);
    expect_peace(&world);
}

static void ranks_that_wait_for_each_other_are_found(void **state) {
    struct world world;
    (void)state;
    open_world(&world, 57, NULL);
    for (int i = 0; i < RANKS; i++) {
        world.pulses[i].wait.operation = "comm_exchange";
        world.pulses[i].is_working = true;
    }
    expect_sentence(&world, "rank 0 of 2 (stage 0 of 2, tick 57, waiting in comm_exchange) has not got on");
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_hangs_is_named),
        cmocka_unit_test(who_gets_on_is_left_alone),
        cmocka_unit_test(a_long_kernel_is_left_alone),
        cmocka_unit_test(who_has_nothing_to_do_is_left_alone),
        cmocka_unit_test(first_ticks_may_read_weights),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
