/* Spec parallelism M-34 by numbers worked out by hand, and ticks that a pipeline's own clock measures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/stage_seconds.h"

static void expect(const struct stage_seconds *stages, int32_t ticks, double step, double draft) {
    struct tick_seconds tick = stage_seconds_of_tick(stages, ticks);
    if (fabs(tick.step - step) > 1e-12 || fabs(tick.draft - draft) > 1e-12) {
        fail_msg("%d ticks: %g and %g seconds, expected %g and %g", ticks, tick.step, tick.draft, step,
                 draft);
    }
}

/* Stages of 3 and 5 ms, then the last of 4 and 2 of drafts. */
static void the_slowest_stage_counts_when_all_are_busy(void **state) {
    (void)state;
    struct stage_seconds stages = {.last = 4, .draft = 2};
    stage_seconds_add(&stages, 3);
    stage_seconds_add(&stages, 5);
    expect(&stages, 3, 5, 1); /* the last stage becomes the slowest one, by 1 */
    expect(&stages, 4, 5, 1);
    stages.draft = 1;
    expect(&stages, 3, 5, 0); /* in the shade of the second stage */
}

static void one_tick_goes_through_all_stages(void **state) {
    (void)state;
    struct stage_seconds stages = {.last = 4, .draft = 2};
    stage_seconds_add(&stages, 5);
    stage_seconds_add(&stages, 3);
    expect(&stages, 1, 12, 2);
    expect(&stages, 2, 6, 1); /* two ticks share the way through three stages */
}

static void one_rank_adds_up(void **state) {
    (void)state;
    const struct stage_seconds stages = {.last = 4, .draft = 2};
    expect(&stages, 1, 4, 2);
    expect(&stages, 2, 4, 2);
}

/*
 * Ticks of two or more groups on three stages, one after the other as the ranks run them: from some tick on
 * they end in the distance that the formula says.
 */
static void a_pipeline_keeps_that_pace(void **state) {
    (void)state;
    enum { STAGES = 3, TICKS = 40 };
    static const double cases[][STAGES] = {{3, 5, 6}, {6, 2, 3}, {4, 4, 4}, {1, 9, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (int groups = 1; groups <= STAGES + 1; groups++) {
            double free_at[STAGES] = {0};
            double ends[TICKS];
            struct stage_seconds stages = {.last = cases[c][STAGES - 1]};
            stage_seconds_add(&stages, cases[c][0]);
            stage_seconds_add(&stages, cases[c][1]);
            for (int tick = 0; tick < TICKS; tick++) {
                double now = tick < groups ? 0 : ends[tick - groups];
                for (int s = 0; s < STAGES; s++) {
                    now = fmax(now, free_at[s]) + cases[c][s];
                    free_at[s] = now;
                }
                ends[tick] = now;
            }
            /* Over as many ticks as there are groups: they may end in pairs. */
            int last = TICKS - 1;
            int turn = groups;
            expect(&stages, groups, (ends[last] - ends[last - turn]) / turn, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_stage_counts_when_all_are_busy),
        cmocka_unit_test(one_tick_goes_through_all_stages),
        cmocka_unit_test(one_rank_adds_up),
        cmocka_unit_test(a_pipeline_keeps_that_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
