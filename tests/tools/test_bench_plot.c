/* The picture of made-up measurements: points where they belong, one line per batch, a document that parses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench_plot.h"

/* Lengths from 128 to 12800 make x logarithmic; times within a decade leave y linear. */
static struct bench_row rows[] = {
    {.prompt_tokens = 128, .batch = 1},   {.prompt_tokens = 128, .batch = 4},
    {.prompt_tokens = 1280, .batch = 1},  {.prompt_tokens = 1280, .batch = 4},
    {.prompt_tokens = 12800, .batch = 1}, {.prompt_tokens = 12800, .batch = 4},
};

static void set_times(void) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double step = 0.010 + 0.005 * (double)i;
        double prompt = (double)rows[i].prompt_tokens / 1000.0;
        rows[i].decode.seconds = (struct bench_spread){step, step * 0.9, step * 1.1};
        rows[i].decode.bandwidth_floor_seconds = step / 2.0;
        rows[i].prefill.seconds = (struct bench_spread){prompt, prompt, prompt};
        rows[i].prefill.flop_floor_seconds = prompt / 4.0;
    }
}

static int count(const char *text, const char *wanted) {
    int found = 0;
    for (const char *at = strstr(text, wanted); at != NULL; at = strstr(at + 1, wanted)) {
        found++;
    }
    return found;
}

static void points_stand_where_they_belong(void **state) {
    (void)state;
    set_times();
    struct bench_report report = {.rows = rows, .row_count = 6};
    struct string_buffer picture = {0};
    assert_int_equal(bench_plot_svg(&report, &picture), STATUS_OK);
    const char *text = string_buffer_text(&picture);
    /* Decode: both batches and their floors; prefill: one line and its floor. */
    assert_int_equal(count(text, "<path class=\"line "), 3);
    assert_int_equal(count(text, "<path class=\"floor "), 3);
    assert_int_equal(count(text, "<circle "), 9);
    /* A batch's lines go through its own points alone. */
    assert_int_equal(count(text, "L265.0 "), 4);
    /* A decade is half of the axis: 80, 265 and 450 in the first panel, 480 further on in the second. */
    assert_int_equal(count(text, "cx=\"80.0\""), 2);
    assert_int_equal(count(text, "cx=\"265.0\""), 2);
    assert_int_equal(count(text, "cx=\"450.0\""), 2);
    assert_int_equal(count(text, "cx=\"745.0\""), 1);
    /* Linear y from 0 to 105 % of 38.5 ms: 10 ms lie 230 * 10 / 40.425 above the bottom at 326. */
    assert_non_null(strstr(text, "cx=\"80.0\" cy=\"269.1\""));
    assert_int_equal(count(text, ">12800</text>"), 2);
    assert_non_null(strstr(text, ">context (tokens)</text>"));
    assert_non_null(strstr(text, ">ms per step</text>"));
    assert_non_null(strstr(text, ">batch</text>"));
    assert_int_equal(count(text, ">4</text>"), 1);
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    string_buffer_deinit(&picture);
}

/* Prefill times span two decades: log axis, 0.128 s at the bottom's tick 0.1 and above, equal steps. */
static void wide_spans_are_logarithmic(void **state) {
    (void)state;
    set_times();
    struct bench_report report = {.rows = rows, .row_count = 6};
    struct string_buffer picture = {0};
    assert_int_equal(bench_plot_svg(&report, &picture), STATUS_OK);
    const char *text = string_buffer_text(&picture);
    float y[3];
    static const char *const points[] = {"cx=\"560.0\" cy=\"%f\"", "cx=\"745.0\" cy=\"%f\"",
                                         "cx=\"930.0\" cy=\"%f\""};
    for (int i = 0; i < 3; i++) {
        char start[32];
        snprintf(start, sizeof start, "%.*s", (int)strcspn(points[i], "%"), points[i]);
        const char *at = strstr(text, start);
        assert_non_null(at);
        assert_int_equal(sscanf(at, points[i], &y[i]), 1);
    }
    float difference = (y[0] - y[1]) - (y[1] - y[2]);
    assert_true(difference < 0.25F && difference > -0.25F);
    assert_true(y[0] > y[1]);
    string_buffer_deinit(&picture);
}

/* One row: no span at all, and no limits measured. */
static void a_single_row_can_be_drawn(void **state) {
    (void)state;
    struct bench_row row = {.prompt_tokens = 64, .batch = 2};
    row.decode.seconds = (struct bench_spread){0.02, 0.02, 0.02};
    row.prefill.seconds = (struct bench_spread){0.5, 0.5, 0.5};
    struct bench_report report = {.rows = &row, .row_count = 1};
    struct string_buffer picture = {0};
    assert_int_equal(bench_plot_svg(&report, &picture), STATUS_OK);
    const char *text = string_buffer_text(&picture);
    assert_int_equal(count(text, "<circle "), 2);
    assert_int_equal(count(text, "<path class=\"floor "), 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    string_buffer_deinit(&picture);
    report.row_count = 0;
    assert_int_equal(bench_plot_svg(&report, &picture), STATUS_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_stand_where_they_belong),
        cmocka_unit_test(wide_spans_are_logarithmic),
        cmocka_unit_test(a_single_row_can_be_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
