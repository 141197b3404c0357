/*
 * What replicas agree on before a tick (spec parallelism 5.6): all come to the same, from what each brings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "comm/comm_threads.h"
#include "engine/lockstep.h"

enum { REPLICAS = 3 };

struct replica {
    struct comm *comm;
    uint64_t number;
    struct lockstep_wish wish;
    struct lockstep_tick tick;
    enum status status;
    char message[ERROR_MESSAGE_BYTES];
};

static void *agree(void *argument) {
    struct replica *replica = argument;
    replica->status = lockstep_agree(replica->comm, replica->number, &replica->wish, &replica->tick);
    if (replica->status != STATUS_OK) {
        snprintf(replica->message, sizeof replica->message, "%s", error_last()->message);
    }
    comm_destroy(&replica->comm);
    return NULL;
}

static void run(struct replica *replicas) {
    struct comm *ends[REPLICAS];
    pthread_t threads[REPLICAS];
    assert_int_equal(comm_threads_create(REPLICAS, ends), STATUS_OK);
    for (int i = 0; i < REPLICAS; i++) {
        replicas[i].comm = ends[i];
        assert_int_equal(pthread_create(&threads[i], NULL, agree, &replicas[i]), 0);
    }
    for (int i = 0; i < REPLICAS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void expect(const struct lockstep_wish *wishes, struct lockstep_tick expected) {
    struct replica replicas[REPLICAS] = {{.number = 7}, {.number = 7}, {.number = 7}};
    for (int i = 0; i < REPLICAS; i++) {
        replicas[i].wish = wishes[i];
    }
    run(replicas);
    for (int i = 0; i < REPLICAS; i++) {
        assert_int_equal(replicas[i].status, STATUS_OK);
        assert_int_equal(replicas[i].tick.rows, expected.rows);
        assert_int_equal(replicas[i].tick.draft_passes, expected.draft_passes);
        assert_int_equal(replicas[i].tick.is_idle, expected.is_idle);
        assert_int_equal(replicas[i].tick.is_end, expected.is_end);
    }
}

/* E-18, M-39: rows add up, and all have as many draft passes as the one that wants most. */
static void all_agree(void **state) {
    (void)state;
    expect((struct lockstep_wish[]){{.rows = 5, .draft_passes = 1},
                                    {.draft_passes = 0},
                                    {.rows = 70, .draft_passes = 3}},
           (struct lockstep_tick){.rows = 75, .draft_passes = 3});
    expect((struct lockstep_wish[]){{.rows = 0}, {.rows = 0}, {.rows = 0}},
           (struct lockstep_tick){.is_idle = true});
    /* A tick that is under way anywhere keeps all awake: its feedback may bring rows. */
    expect((struct lockstep_wish[]){{.rows = 0}, {.in_flight = 1}, {.rows = 0}},
           (struct lockstep_tick){.rows = 0});
    expect((struct lockstep_wish[]){{.is_ending = true}, {.is_ending = true}, {.rows = 0}},
           (struct lockstep_tick){.is_idle = true});
    expect((struct lockstep_wish[]){{.is_ending = true}, {.is_ending = true}, {.is_ending = true, .rows = 1}},
           (struct lockstep_tick){.rows = 1, .is_end = true});
}

static void one_replica_agrees_with_itself(void **state) {
    struct lockstep_tick tick;
    (void)state;
    const struct lockstep_wish wish = {.rows = 4, .draft_passes = 2};
    assert_int_equal(lockstep_agree(NULL, 1, &wish, &tick), STATUS_OK);
    assert_int_equal(tick.rows, 4);
    assert_int_equal(tick.draft_passes, 2);
    assert_false(tick.is_idle || tick.is_end);
}

static void a_replica_out_of_step_is_named(void **state) {
    struct replica replicas[REPLICAS] = {{.number = 7}, {.number = 7}, {.number = 9}};
    (void)state;
    run(replicas);
    assert_int_equal(replicas[0].status, STATUS_INTERNAL);
    assert_non_null(strstr(replicas[0].message, "replica 2 is at exchange 9, replica 0 at 7"));
    assert_int_equal(replicas[1].status, STATUS_INTERNAL);
    assert_int_equal(replicas[2].status, STATUS_INTERNAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_agree),
        cmocka_unit_test(one_replica_agrees_with_itself),
        cmocka_unit_test(a_replica_out_of_step_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
