/*
 * The same bits on every layout (spec parallelism 6.1 L0 and L1, S-22, T-8): requests on layout-v4 over
 * pipeline stages, tensor ranks that share rows or not, whole or cut experts, ways to reach them, and drafts
 * give what one rank gives, token by token and, by their log-probabilities, logit by logit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/layout_runs.h"

/* G-3, G-15, G-17: whole experts and cut ones, embedding and logits by parts of the vocabulary. */
static void test_tensor_ranks(void **state) {
    static const struct layout layouts[] = {
        {1, 2, true, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {1, 2, false, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {1, 4, true, 0, 5, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {1, 4, false, 0, 64, false, OFF, AGRS, WHOLE, EARLY, 0, 0, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* G-16, G-19, P-11: streams are made once, and every stage has the tokens, which hash layers need. */
static void test_stages(void **state) {
    static const struct layout layouts[] = {
        {2, 1, true, 0, 64, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {3, 1, true, 0, 7, true, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {8, 1, true, 0, 64, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* P-1, P-25: any cut, a last stage without layers too (CFG-04 at its most), and fewer or more ticks under way
 * than stages. */
static void test_cuts_and_ticks(void **state) {
    static const struct layout layouts[] = {
        {2, 1, true, 0, 16, false, OFF, AGRS, CUT, EARLY, 0, 1, "4,4", 0, 1},
        {2, 1, true, 1, 5, true, OFF, AGRS, CUT, EARLY, 0, 3, "8,0", 0, 1},
        {2, 2, true, 3, 9, true, ON, AGRS, CUT, LATE, 0, 4, "8,0", 0, 1},
        {3, 1, true, 2, 33, true, OFF, AGRS, CUT, EARLY, 0, 2, "1,1,6", 0, 1},
        {3, 1, true, 0, 4, true, OFF, AGRS, CUT, EARLY, 0, 6, "6,1,1", 0, 1},
        {9, 1, true, 1, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, "1,1,1,1,1,1,1,1,0", 0, 1},
        {9, 1, true, 0, 9, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {1, 1, true, 2, 7, true, OFF, AGRS, CUT, EARLY, 0, 3, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* M-41, M-43: drafts are made on the last stage; stages before it take back what was rejected by positions
 * alone. */
static void test_drafts_on_ranks(void **state) {
    static const struct layout layouts[] = {
        {1, 2, true, 1, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {2, 1, true, 2, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {2, 2, false, 3, 9, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {3, 2, true, 3, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* Every step, those of one row too, where most ranks then have none (S-8, T-2). */
static void test_shared_rows(void **state) {
    static const struct layout layouts[] = {
        {1, 2, true, 0, 64, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {1, 2, false, 0, 9, true, ON, AGRS, WHOLE, LATE, 0, 0, NULL, 0, 1},
        {1, 2, true, 0, 7, true, ON, A2A, WHOLE, LATE, 0, 0, NULL, 0, 1},
        {1, 4, true, 0, 64, false, ON, A2A, CUT, LATE, 0, 0, NULL, 0, 1},
        {1, 4, true, 0, 5, true, ON, AGRS, WHOLE, EARLY, 0, 0, NULL, 0, 1},
        {1, 4, false, 0, 64, false, ON, A2A, CUT, EARLY, 0, 0, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* The switch is per step: prompts share their rows, answers do not (S-25, S-28). */
static void test_switch_by_rows(void **state) {
    static const struct layout layouts[] = {
        {1, 2, true, 0, 64, true, AUTO, AGRS, CUT, LATE, 0, 0, NULL, 0, 1},
        {1, 4, true, 2, 64, true, AUTO, A2A, WHOLE, LATE, 0, 0, NULL, 0, 1},
        {2, 2, true, 3, 33, true, AUTO, A2A, CUT, EARLY, 3, 0, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* S-22, S-24: over stages and with drafts, whose rows stay with their sources. */
static void test_shared_rows_on_stages(void **state) {
    static const struct layout layouts[] = {
        {2, 2, true, 0, 64, false, ON, A2A, CUT, LATE, 0, 0, NULL, 0, 1},
        {3, 4, true, 0, 11, true, ON, AGRS, WHOLE, LATE, 0, 0, NULL, 0, 1},
        {1, 2, true, 1, 64, true, ON, A2A, CUT, LATE, 0, 0, NULL, 0, 1},
        {1, 4, false, 2, 9, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1},
        {2, 2, false, 3, 9, true, ON, AGRS, WHOLE, LATE, 0, 0, NULL, 0, 1},
        {3, 2, true, 3, 64, true, ON, A2A, CUT, EARLY, 0, 0, NULL, 0, 1}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_ranks),          cmocka_unit_test(test_stages),
        cmocka_unit_test(test_cuts_and_ticks),        cmocka_unit_test(test_drafts_on_ranks),
        cmocka_unit_test(test_shared_rows),           cmocka_unit_test(test_switch_by_rows),
        cmocka_unit_test(test_shared_rows_on_stages),
    };
    return cmocka_run_group_tests(tests, layout_set_up, layout_tear_down);
}
