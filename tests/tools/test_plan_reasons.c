/* What a token's time goes to, and the sentences about it: plans made so that the cause is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/plan_fixture.h"
#include "tools/plan_reasons.h"

static void expect_cause(const struct plan *plan, enum plan_cause cause, double least_share) {
    double seconds[PLAN_CAUSE_COUNT];
    double sum = 0.0;
    plan_reasons_split(plan, seconds);
    for (int i = 0; i < PLAN_CAUSE_COUNT; i++) {
        assert_true(seconds[i] > -1e-12);
        sum += seconds[i];
    }
    assert_true(fabs(sum * plan->speed.tokens_per_second - 1.0) < 1e-9);
    if (seconds[cause] < least_share * sum) {
        fail_msg("cause %d has a share of %g", (int)cause, seconds[cause] / sum);
    }
}

static void causes_are_found(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.sequence_limit = 1;
    plan_fixture_make(&fixture, 1, 1, 1);
    expect_cause(&fixture.plan, PLAN_CAUSE_READING, 0.95);
    /* One sequence is on one of eight stages at a time. */
    plan_fixture_make(&fixture, 1, 8, 1);
    expect_cause(&fixture.plan, PLAN_CAUSE_WAITING, 0.8);
    /* Of two stages the second has all the work, and the first waits half of the time. */
    fixture.request.sequence_limit = 64;
    fixture.request.layer_partition = "1,42";
    plan_fixture_make(&fixture, 1, 2, 1);
    expect_cause(&fixture.plan, PLAN_CAUSE_UNEVEN, 0.45);
    fixture.request.layer_partition = NULL;
    fixture.machine.device.operations_per_second = 1e12;
    plan_fixture_make(&fixture, 1, 1, 1);
    expect_cause(&fixture.plan, PLAN_CAUSE_COMPUTING, 0.5);
    fixture.machine.device.link_bytes_per_second = 1e6;
    plan_fixture_make(&fixture, 1, 1, 8);
    expect_cause(&fixture.plan, PLAN_CAUSE_LINKS, 0.9);
    plan_fixture_make(&fixture, 1, 8, 1);
    assert_int_equal(fixture.plan.speed.bottleneck_stage, PLAN_BOUNDARIES);
    expect_cause(&fixture.plan, PLAN_CAUSE_LINKS, 0.5);
    plan_fixture_close(&fixture);
}

static void expect_sentence(const struct plan *plan, const struct plan *best, const char *expected) {
    struct string_buffer sentence = {0};
    plan_reasons_append(plan, best, &sentence);
    assert_string_equal(string_buffer_text(&sentence), expected);
    string_buffer_deinit(&sentence);
}

/* Numbers that are easy to follow: rounds of 10 and of 20 ms. */
static void sentences_have_both_sides(void **state) {
    (void)state;
    struct plan_stage stages[2] = {
        {.decode = {.total = 0.01, .read = 0.006, .compute = 0.001, .link = 0.003}},
        {.decode = {.total = 0.02, .read = 0.006, .compute = 0.001, .link = 0.013}}};
    struct plan best = {.request.mesh = {1, 1, 1, 1, false},
                        .stages = &stages[0],
                        .imbalance = 1.0,
                        .token_capacity = 1000,
                        .speed = {.cycle_seconds = 0.01,
                                  .tokens_per_round = 1.0,
                                  .tokens_per_second = 1000.0,
                                  .prefill_tokens_per_second = 5000.0,
                                  .running_sequences = 10}};
    struct plan other = best;
    other.stages = &stages[1];
    other.speed.cycle_seconds = 0.02;
    other.speed.tokens_per_second = 500.0;
    expect_sentence(&best, &best, "the fastest: of a token's time 60 % goes to reading weights and state");
    expect_sentence(&other, &best, "100.0 % more time per token: 1300 us of it go to links instead of 300");
    other.request.mesh.data = 3;
    other.speed.prefill_tokens_per_second = 10000.0;
    expect_sentence(&other, &best,
                    "100.0 % more time per token: 1300 us of it go to links instead of 300; but it holds 3.0 "
                    "times the tokens, reads prompts 2.0 times as fast");
    other = best;
    expect_sentence(&other, &best, "as fast as the first");
    other.speed.tokens_per_round = 1.5;
    expect_sentence(&other, &best, "as fast as the first; but it answers one sequence 1.5 times as fast");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_are_found),
        cmocka_unit_test(sentences_have_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
