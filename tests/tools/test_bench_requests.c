/* The benchmark of requests on made-up numbers: its picture, its counters, its prompts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench_loop.h"
#include "tools/bench_numbers.h"
#include "tools/bench_prompts.h"
#include "tools/bench_requests_report.h"

static int count(const char *text, const char *wanted) {
    int found = 0;
    for (const char *at = strstr(text, wanted); at != NULL; at = strstr(at + 1, wanted)) {
        found++;
    }
    return found;
}

/* 1, 10 and 100 requests make x logarithmic, 100 to 100000 tokens per second y too. */
static void lines_go_through_their_own_setting(void **state) {
    (void)state;
    struct bench_requests_row rows[6];
    const double concurrencies[] = {1, 10, 100};
    for (int i = 0; i < 6; i++) {
        double rate = 100.0 * concurrencies[i / 2] * (i % 2 == 0 ? 1.0 : 10.0);
        rows[i] = (struct bench_requests_row){.concurrency = (int64_t)concurrencies[i / 2],
                                              .setting = {.limit = 3, .is_adaptive = i % 2 == 1},
                                              .tokens_per_second = {rate, rate, rate}};
    }
    struct bench_requests_report report = {.rows = rows, .row_count = 6, .setting_count = 2};
    struct string_buffer picture = {0};
    assert_int_equal(bench_requests_plot(&report, &picture), STATUS_OK);
    const char *text = string_buffer_text(&picture);
    assert_int_equal(count(text, "<path class=\"line "), 2);
    assert_int_equal(count(text, "<circle "), 6);
    /* The axis goes from 80 to 600. */
    assert_int_equal(count(text, "cx=\"80.0\""), 2);
    assert_int_equal(count(text, "cx=\"340.0\""), 2);
    assert_int_equal(count(text, "cx=\"600.0\""), 2);
    /* y: from 100 at 326 to 105000 at 96; 1000 is log 10 / log 1050 of the way up. Both settings have it. */
    assert_int_equal(count(text, "cx=\"340.0\" cy=\"249.9\""), 1);
    assert_int_equal(count(text, "cx=\"80.0\" cy=\"249.9\""), 1);
    assert_non_null(strstr(text, "drafts adaptive: 1e+05 tokens/s"));
    string_buffer_deinit(&picture);
    report.row_count = 0;
    assert_int_equal(bench_requests_plot(&report, &picture), STATUS_BAD_ARGUMENT);
}

static void counters_add_up(void **state) {
    (void)state;
    struct sluice_engine_stats sum = {.steps = 3, .output_tokens = 10, .draft_probe_gain = 1.5};
    struct sluice_engine_stats more = {.steps = 4, .output_tokens = 20, .draft_probe_gain = 1.25};
    sum.verified_drafts[0] = 6;
    sum.accepted_drafts[0] = 4;
    more.verified_drafts[0] = 2;
    more.accepted_drafts[0] = 2;
    more.verified_drafts[1] = 2;
    more.accepted_drafts[1] = 1;
    sum.stages[1] = (struct sluice_stage_stats){.compute_seconds = 1.0, .wait_seconds = 0.5};
    more.stages[1] =
        (struct sluice_stage_stats){.compute_seconds = 2.0, .wait_seconds = 0.25, .send_seconds = 3.0};
    sum.stage_count = 2;
    more.stage_count = 2;
    bench_stats_add(&sum, &more);
    assert_true(sum.stages[1].compute_seconds == 3.0 && sum.stages[1].wait_seconds == 0.75 &&
                sum.stages[1].send_seconds == 3.0);
    assert_int_equal(sum.steps, 7);
    assert_int_equal(sum.output_tokens, 30);
    assert_true(sum.draft_probe_gain == 1.25);
    /* 8 rounds with drafts, 7 drafts accepted. */
    assert_true(bench_mean_accepted_length(&sum) == 1.0 + 7.0 / 8.0);
    struct sluice_engine_stats none = {.steps = 1};
    assert_true(bench_mean_accepted_length(&none) == 1.0);
}

static void medians_and_extremes(void **state) {
    (void)state;
    double odd[] = {5.0, 1.0, 3.0};
    double even[] = {8.0, 2.0, 4.0, 6.0};
    struct bench_spread spread = bench_spread_of(odd, 3);
    assert_true(spread.median == 3.0 && spread.minimum == 1.0 && spread.maximum == 5.0);
    assert_true(bench_spread_of(even, 4).median == 5.0);
}

static void text_is_cut_into_whole_prompts(void **state) {
    (void)state;
    const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7};
    struct bench_prompts prompts;
    assert_int_equal(bench_prompts_cut(tokens, 7, 3, &prompts), STATUS_OK);
    assert_int_equal(prompts.count, 2);
    assert_int_equal(bench_prompts_at(&prompts, 0)[0], 1);
    assert_int_equal(bench_prompts_at(&prompts, 1)[2], 6);
    assert_int_equal(bench_prompts_at(&prompts, 2)[0], 1);
    bench_prompts_deinit(&prompts);
    assert_int_equal(bench_prompts_cut(tokens, 7, 8, &prompts), STATUS_BAD_ARGUMENT);
}

/* Answers differ, and a wave of them has as many tokens as if they did not. */
static void answers_are_spread_evenly(void **state) {
    (void)state;
    enum { REQUESTS = 128, MEAN = 64 };
    int64_t sum = 0;
    int32_t seen[MEAN + MEAN / 2 + 1] = {0};
    for (int i = 0; i < REQUESTS; i++) {
        int64_t tokens = bench_loop_answer_tokens(MEAN, i);
        assert_in_range(tokens, MEAN / 2, bench_loop_longest_answer(MEAN));
        assert_true(++seen[tokens] <= 3);
        sum += tokens;
    }
    assert_in_range(sum, REQUESTS * MEAN - REQUESTS, REQUESTS * MEAN + REQUESTS);
    assert_int_equal(bench_loop_answer_tokens(1, 5), 1);
    assert_int_equal(bench_loop_longest_answer(1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_spread_evenly),
        cmocka_unit_test(lines_go_through_their_own_setting),
        cmocka_unit_test(counters_add_up),
        cmocka_unit_test(medians_and_extremes),
        cmocka_unit_test(text_is_cut_into_whole_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
