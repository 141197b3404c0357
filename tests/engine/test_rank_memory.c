/* How many pages ranks agree on, by sums that are done here by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/rank_memory.h"

enum { MEGABYTE = 1000000 };

static struct rank_memory rank_of(int32_t host, uint64_t copied, uint64_t available) {
    return (struct rank_memory){.host = host,
                                .fixed_bytes = copied + 10 * (uint64_t)MEGABYTE,
                                .page_bytes = MEGABYTE,
                                .available_bytes = available,
                                .ledger = {.copied_weight_bytes = copied}};
}

static int32_t pages_of(const struct rank_memory *ranks, int count) {
    const struct memory_plan_input unlimited = {.pages_per_sequence = 1, .sequence_limit = 1 << 20};
    int32_t pages = -1;
    assert_int_equal(rank_memory_agree(ranks, count, &unlimited, &pages), STATUS_OK);
    return pages;
}

/*
 * Of 1000 MB, ranks have copied 300 and 200 when they look: 700 and 500 are left. Nine tenths of 1000 MB less
 * 500 of copies and 20 of other things are 380, for pages of 2 MB.
 */
static void copies_are_counted_once(void **state) {
    (void)state;
    uint64_t megabyte = MEGABYTE;
    struct rank_memory ranks[] = {rank_of(0, 300 * megabyte, 700 * megabyte),
                                  rank_of(0, 200 * megabyte, 500 * megabyte)};
    assert_int_equal(pages_of(ranks, 2), 190);
    /* The first alone: 900 less 310, for pages of 1 MB. */
    assert_int_equal(pages_of(ranks, 1), 590);
}

/* The host with the least room says how many pages all have. */
static void the_fullest_host_decides(void **state) {
    (void)state;
    uint64_t megabyte = MEGABYTE;
    struct rank_memory ranks[] = {rank_of(0, 0, 1000 * megabyte), rank_of(1, 0, 100 * megabyte)};
    assert_int_equal(pages_of(ranks, 2), 80);
    ranks[1].available_bytes = UINT64_MAX; /* unknown */
    assert_int_equal(pages_of(ranks, 2), 890);
}

/* Stages of two ranks: on two hosts, on one of their own, and on one that another stage is on too. */
static void a_stage_has_its_own_hosts(void **state) {
    (void)state;
    const struct host_memory apart[] = {{0, 100}, {1, 200}, {2, 400}, {2, 400}};
    assert_true(rank_memory_stage_limit(apart, 4, 0, 2) == 90.0 + 180.0);
    assert_true(rank_memory_stage_limit(apart, 4, 2, 2) == 360.0);
    const struct host_memory mixed[] = {{0, 100}, {1, 200}, {1, 200}, {2, 400}};
    assert_true(isinf(rank_memory_stage_limit(mixed, 4, 0, 2)));
    assert_true(isinf(rank_memory_stage_limit(mixed, 4, 2, 2)));
    assert_true(rank_memory_stage_limit(mixed, 4, 0, 1) == 90.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_counted_once),
        cmocka_unit_test(the_fullest_host_decides),
        cmocka_unit_test(a_stage_has_its_own_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
