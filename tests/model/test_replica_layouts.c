/*
 * The same bits where replicas share experts (spec parallelism 5.6, T-8 with D above 1): whatever the others
 * have to do, and over stages, tensor ranks, shared rows, ways to the experts and drafts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/layout_runs.h"
#include "support/model_fixture.h"

/*
 * Replicas that share the experts of a stage (5.6): stages, tensor ranks, shared rows, drafts and exchanges.
 * Requests are dealt out over them, the last ones end on one while the other has nothing left to do.
 */
static void test_replicas(void **state) {
    static const struct layout layouts[] = {
        {1, 1, true, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 2},
        {1, 1, true, 3, 9, true, OFF, A2A, CUT, EARLY, 0, 0, NULL, 0, 2},
        {2, 1, true, 0, 7, true, OFF, A2A, CUT, EARLY, 0, 0, NULL, 0, 2},
        {1, 2, true, 0, 64, true, OFF, AGRS, CUT, LATE, 0, 0, NULL, 0, 2},
        {1, 2, true, 2, 64, false, OFF, A2A, WHOLE, EARLY, 0, 0, NULL, 0, 2},
        {1, 2, true, 1, 33, true, ON, A2A, CUT, LATE, 0, 0, NULL, 0, 2},
        {2, 2, true, 3, 11, true, ON, AGRS, WHOLE, LATE, 0, 3, NULL, 0, 2},
        {2, 2, true, 2, 64, true, AUTO, A2A, CUT, EARLY, 0, 0, NULL, 1, 2},
        {3, 1, true, 1, 5, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 3, 2},
        {1, 1, true, 2, 16, true, OFF, AGRS, CUT, EARLY, 0, 3, NULL, 0, 3}};
    layout_expect_same(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

static void expect_refused(const struct sluice_engine_options *options, enum sluice_status status,
                           const char *word) {
    struct sluice_engine *engine;
    assert_int_equal(sluice_engine_open(options, &engine), status);
    if (strstr(sluice_last_error(), word) == NULL) {
        fail_msg("\"%s\" is not in: %s", word, sluice_last_error());
    }
}

/* What cannot be, in a sentence, before weights are loaded. */
static void test_refusals(void **state) {
    struct sluice_engine_options options = model_options(layout_directory(*state));
    struct engine_core *core;
    options.parallel.data = 2;
    assert_int_equal(engine_core_open(&options, &core), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error_last()->message, "one replica cannot run alone"));
    options.parallel.has_expert_parallelism = false;
    expect_refused(&options, SLUICE_UNSUPPORTED, "leave --no-enable-expert-parallel out");
    options.parallel.has_expert_parallelism = true;
    options.parallel.data = 65;
    expect_refused(&options, SLUICE_OUT_OF_RANGE, "65 replicas of 1 pipeline stages of 1 ranks");
    options.parallel.data = -1;
    expect_refused(&options, SLUICE_OUT_OF_RANGE, "-1 replicas were asked for");
    options.parallel.data = 32; /* a layer of the model has 8 experts */
    expect_refused(&options, SLUICE_UNSUPPORTED, "32 ranks (data 32 x tensor 1) needs an expert for each");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_replicas), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, layout_set_up, layout_tear_down);
}
