/* Pages that ranks agree on, and what they say if there is no room (spec parallelism 6.5, CFG-15). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/rank_memory.h"

enum { MEGABYTE = 1000000 };

/* A sequence needs 4 pages of 128 tokens, at most 10 run at once. */
static const struct memory_plan_input wanted = {
    .page_tokens = 128, .pages_per_sequence = 4, .sequence_limit = 10};

static struct rank_memory rank_on(int host, uint64_t fixed, uint64_t page, uint64_t available) {
    return (struct rank_memory){.host = host,
                                .fixed_bytes = fixed * MEGABYTE,
                                .page_bytes = page * MEGABYTE,
                                .available_bytes = available * MEGABYTE};
}

/* 0.9 * 100 - 2 * 20 = 50 MB on host 0 for pages of 2 + 3 MB; 0.9 * 100 - 20 = 70 on host 2 for 5 MB ones. */
static void the_fullest_host_counts(void **state) {
    (void)state;
    struct rank_memory ranks[] = {rank_on(0, 20, 2, 120), rank_on(0, 20, 3, 100), rank_on(2, 20, 5, 100)};
    int32_t pages = 0;
    assert_int_equal(rank_memory_agree(ranks, 3, &wanted, &pages), STATUS_OK);
    assert_int_equal(pages, 10);
    ranks[2].fixed_bytes = 50 * MEGABYTE;
    assert_int_equal(rank_memory_agree(ranks, 3, &wanted, &pages), STATUS_OK);
    assert_int_equal(pages, 8);
}

/* All that run at once can use 40 pages, and no more are made. */
static void no_more_than_can_be_used(void **state) {
    (void)state;
    const struct rank_memory ranks[] = {rank_on(0, 1, 1, 1000), rank_on(1, 1, 1, 1000)};
    int32_t pages = 0;
    assert_int_equal(rank_memory_agree(ranks, 2, &wanted, &pages), STATUS_OK);
    assert_int_equal(pages, 40);
}

/* Nine tenths of what is free and what the copied weights have taken already. */
static void cfg_15_a_host_without_room_is_told_with_its_ledger(void **state) {
    (void)state;
    static const char *const words[] = {"2 ranks share a host, 1 to 2",
                                        "rank 1: copied weights 3.0 MB, slots 4.0 MB, snapshots 5.0 MB, "
                                        "step 6.0 MB, host 7.0 MB",
                                        "one request of 512 tokens needs 20.0 MB", "are 92.7 MB"};
    struct rank_memory ranks[] = {rank_on(0, 20, 2, 100), rank_on(1, 50, 2, 100), rank_on(1, 25, 3, 200)};
    int32_t pages = 0;
    ranks[1].ledger = (struct sluice_memory_ledger){.copied_weight_bytes = 3 * MEGABYTE,
                                                    .slot_state_bytes = 4 * MEGABYTE,
                                                    .snapshot_bytes = 5 * MEGABYTE,
                                                    .step_bytes = 6 * MEGABYTE,
                                                    .host_bytes = 7 * MEGABYTE};
    assert_int_equal(rank_memory_agree(ranks, 3, &wanted, &pages), STATUS_OUT_OF_MEMORY);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(error_last()->message, words[i]) == NULL) {
            fail_msg("\"%s\" is not in: %s", words[i], error_last()->message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_host_counts),
        cmocka_unit_test(no_more_than_can_be_used),
        cmocka_unit_test(cfg_15_a_host_without_room_is_told_with_its_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
