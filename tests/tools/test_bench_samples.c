/* Percentiles against numbers worked out by hand, as numpy.percentile gives them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/bench_samples.h"

static struct bench_summary summarise(const double *values, size_t count) {
    struct bench_samples samples = {0};
    for (size_t i = 0; i < count; i++) {
        bench_samples_add(&samples, values[i]);
    }
    assert_int_equal(bench_samples_check(&samples), STATUS_OK);
    struct bench_summary summary = bench_samples_summarise(&samples);
    bench_samples_deinit(&samples);
    return summary;
}

static void percentiles_lie_between_samples(void **state) {
    (void)state;
    static const double values[] = {5.0, 1.0, 4.0, 2.0, 30.0};
    struct bench_summary summary = summarise(values, 5);
    assert_float_equal(summary.mean, 8.4, 1e-12);
    assert_float_equal(summary.median, 4.0, 1e-12);
    assert_float_equal(summary.p90, 20.0, 1e-12); /* 3.6 steps from the least: 5 + 0.6 * 25 */
    assert_float_equal(summary.p99, 29.0, 1e-12); /* 3.96 steps */
    summary = summarise(values, 4);
    assert_float_equal(summary.median, 3.0, 1e-12);
}

static void few_samples(void **state) {
    (void)state;
    static const double value = 7.0;
    struct bench_summary summary = summarise(&value, 1);
    assert_true(summary.mean == 7.0 && summary.median == 7.0 && summary.p90 == 7.0 && summary.p99 == 7.0);
    summary = summarise(NULL, 0);
    assert_true(summary.mean == 0.0 && summary.p99 == 0.0);
}

static void many_samples(void **state) {
    (void)state;
    struct bench_samples samples = {0};
    struct bench_samples twice = {0};
    for (int i = 0; i <= 1000; i++) {
        bench_samples_add(&samples, (double)(i * 8 % 1001));
    }
    bench_samples_add_all(&twice, &samples);
    bench_samples_add_all(&twice, &samples);
    assert_int_equal(twice.count, 2002);
    struct bench_summary summary = bench_samples_summarise(&samples);
    assert_float_equal(summary.median, 500.0, 1e-9);
    assert_float_equal(summary.p90, 900.0, 1e-9);
    assert_float_equal(summary.p99, 990.0, 1e-9);
    bench_samples_deinit(&samples);
    bench_samples_deinit(&twice);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_lie_between_samples),
        cmocka_unit_test(few_samples),
        cmocka_unit_test(many_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
