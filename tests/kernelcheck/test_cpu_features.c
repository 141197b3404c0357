/* Names of instruction sets: what --cpu-features takes, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "backends/cpu/cpu_features.h"

/* In rising order, as cpu_features.h documents them. */
static const char *const set_names[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx_bf16"};

enum { SET_COUNT = sizeof set_names / sizeof set_names[0] };

static void test_auto_is_what_the_processor_has(void **state) {
    (void)state;
    unsigned features = 0;
    assert_int_equal(cpu_features_parse("auto", &features), STATUS_OK);
    assert_int_equal(features, cpu_features_detect());
    assert_true((features & CPU_FEATURE_LANES) != 0);
}

static void test_reference_is_nothing(void **state) {
    (void)state;
    unsigned features = 99;
    assert_int_equal(cpu_features_parse("reference", &features), STATUS_OK);
    assert_int_equal(features, 0);
    assert_string_equal(cpu_features_name(0), "reference");
}

/* A set holds all below it; one that the processor lacks is refused, not cut down. */
static void test_sets_are_cumulative(void **state) {
    (void)state;
    unsigned detected = cpu_features_detect();
    for (int i = 0; i < SET_COUNT; i++) {
        unsigned wanted = (2u << i) - 1;
        unsigned features = 0;
        enum status status = cpu_features_parse(set_names[i], &features);
        if ((wanted & ~detected) == 0) {
            assert_int_equal(status, STATUS_OK);
            assert_int_equal(features, wanted);
        } else {
            assert_int_equal(status, STATUS_UNSUPPORTED);
            assert_non_null(strstr(error_last()->message, set_names[i]));
        }
        assert_string_equal(cpu_features_name(wanted), set_names[i]);
    }
}

static void test_unknown_names_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "AVX2", "avx", "avx2 ", "sse", "all"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned features;
        assert_int_equal(cpu_features_parse(wrong[i], &features), STATUS_USAGE);
        for (int s = 0; s < SET_COUNT; s++) {
            assert_non_null(strstr(error_last()->message, set_names[s]));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_is_what_the_processor_has),
        cmocka_unit_test(test_reference_is_nothing),
        cmocka_unit_test(test_sets_are_cumulative),
        cmocka_unit_test(test_unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
