/* Timings and choices: which entries turn up, and that their numbers fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "kernelcheck/kernel_bench.h"
#include "kernelcheck/kernel_choice.h"
#include "kernelcheck/kernel_machine.h"

enum { TIMINGS_MAX = 64 };

struct timings {
    struct kernel_timing items[TIMINGS_MAX];
    size_t count;
};

static enum status keep_timing(void *context, const struct kernel_timing *timing) {
    struct timings *timings = context;
    assert_true(timings->count < TIMINGS_MAX);
    timings->items[timings->count++] = *timing;
    return STATUS_OK;
}

/* rms_norm of (rows, 2048) and of (rows, 32, 512) by the reference, at five loads, in both modes. */
static void test_reference_is_timed_at_every_load(void **state) {
    (void)state;
    struct kernel_machine machine;
    struct timings timings = {0};
    assert_int_equal(kernel_machine_init(&machine, "cpu", "reference"), STATUS_OK);
    struct kernel_bench_request request = {
        .entries = machine.entries,
        .entry_count = machine.entry_count,
        .features = machine.features,
        .operations = (uint64_t)1 << OP_RMS_NORM,
        .device = machine.device,
        .roofline = {.read_bytes_per_second = 1e9, .f32_flops_per_second = 1e9},
        .report = keep_timing,
        .report_context = &timings,
    };
    assert_int_equal(worker_pool_create(2, &request.pool), STATUS_OK);
    assert_int_equal(kernel_bench_run(&request), STATUS_OK);
    static const int64_t rows[] = {1, 4, 16, 128, 512};
    assert_int_equal(timings.count, 2 * 2 * 5);
    for (size_t i = 0; i < timings.count; i++) {
        const struct kernel_timing *timing = &timings.items[i];
        assert_string_equal(timing->entry->name, "rms_norm_reference");
        assert_int_equal(timing->rows, rows[i % 5]);
        assert_int_equal(timing->is_prefill, timing->rows >= 128);
        assert_true(timing->seconds > 0.0);
        /* At least input and output: 2048 elements a row of 2 or 4 bytes, twice, or 16384 in place. */
        double row_bytes = timing->numerics == NUMERICS_NATIVE ? 2.0 : 4.0;
        row_bytes *= strcmp(timing->label, "hidden") == 0 ? 2.0 * 2048 : 32.0 * 512;
        assert_true(timing->bytes >= row_bytes * (double)timing->rows);
        assert_int_equal(timing->is_cold, timing->bytes > 1048576.0);
        assert_true(!timing->is_cold || timing->limit_seconds >= timing->bytes / 1e9);
    }
    worker_pool_destroy(&request.pool);
    kernel_machine_deinit(&machine);
}

/* Without instruction sets everything falls to the reference; every operation is there. */
static void test_choices_without_features(void **state) {
    (void)state;
    struct kernel_machine machine;
    struct kernel_choices choices;
    assert_int_equal(kernel_machine_init(&machine, "cpu", "reference"), STATUS_OK);
    assert_int_equal(kernel_choices_list(&machine, NUMERICS_NATIVE, &choices), STATUS_OK);
    uint64_t seen = 0;
    for (size_t i = 0; i < choices.count; i++) {
        assert_non_null(choices.items[i].entry);
        assert_non_null(strstr(choices.items[i].entry->name, "_reference"));
        seen |= (uint64_t)1 << choices.items[i].op;
    }
    assert_int_equal(seen, ((uint64_t)1 << OP_COUNT) - 1);
    kernel_machine_deinit(&machine);
}

/* What the portable kernels can do, they do; the formats of linear are told apart. */
static void test_choices_with_portable_kernels(void **state) {
    (void)state;
    struct kernel_machine machine;
    struct kernel_choices choices;
    assert_int_equal(kernel_machine_init(&machine, "cpu", "portable"), STATUS_OK);
    assert_int_equal(kernel_choices_list(&machine, NUMERICS_IDEAL, &choices), STATUS_OK);
    bool has_fp4 = false;
    bool has_norm = false;
    for (size_t i = 0; i < choices.count; i++) {
        const struct kernel_choice *choice = &choices.items[i];
        has_fp4 = has_fp4 || (choice->op == OP_LINEAR && strcmp(choice->weights, "FP4") == 0);
        has_norm = has_norm || strcmp(choice->entry->name, "rms_norm_lanes_portable") == 0;
    }
    assert_true(has_fp4);
    assert_true(has_norm);
    kernel_machine_deinit(&machine);
}

static void test_operations_by_name(void **state) {
    (void)state;
    uint64_t operations = 0;
    char *names[] = {"rope", "linear"};
    assert_int_equal(kernel_operations_parse(2, names, &operations), STATUS_OK);
    assert_int_equal(operations, (uint64_t)1 << OP_ROPE | (uint64_t)1 << OP_LINEAR);
    assert_int_equal(kernel_operations_parse(0, NULL, &operations), STATUS_OK);
    assert_int_equal(operations, ((uint64_t)1 << OP_COUNT) - 1);
    char *wrong[] = {"liner"};
    assert_int_equal(kernel_operations_parse(1, wrong, &operations), STATUS_USAGE);
    assert_non_null(strstr(error_last()->message, "did you mean linear"));
}

/* Registers multiply faster than a second a million times, and bf16 needs its feature. */
static void test_roofline_without_features(void **state) {
    (void)state;
    struct roofline roofline;
    assert_int_equal(roofline_measure(NULL, 0, &roofline), STATUS_OK);
    assert_true(roofline.read_bytes_per_second > 1e7);
    assert_true(roofline.f32_flops_per_second > 1e7);
    assert_true(roofline.bf16_flops_per_second == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_timed_at_every_load),
        cmocka_unit_test(test_choices_without_features),
        cmocka_unit_test(test_choices_with_portable_kernels),
        cmocka_unit_test(test_operations_by_name),
        cmocka_unit_test(test_roofline_without_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
