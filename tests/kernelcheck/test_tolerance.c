/* The three tolerance classes on numbers written down by hand, and the plans that rows are compared by. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernelcheck/case_plan.h"
#include "kernelcheck/tolerance.h"

static const struct tolerance exact = {TOLERANCE_EXACT, 0, 0, ""};

static bool holds(const struct tolerance *tolerance, bool by_value, enum dtype dtype, const float *got,
                  const float *wanted, int64_t columns, struct difference *worst) {
    const bool present[1] = {true};
    struct comparison comparison = {got, wanted, present, 1, columns, dtype};
    return tolerance_holds(tolerance, by_value, &comparison, worst);
}

static void test_exact_tells_zeros_apart(void **state) {
    (void)state;
    struct difference worst;
    const float got[3] = {1.0f, -0.0f, 3.0f};
    const float wanted[3] = {1.0f, 0.0f, 3.0f};
    assert_false(holds(&exact, false, DTYPE_F32, got, wanted, 3, &worst));
    assert_int_equal(worst.element, 1);
    assert_true(holds(&exact, true, DTYPE_F32, got, wanted, 3, &worst));
    assert_true(holds(&exact, false, DTYPE_F32, wanted, wanted, 3, &worst));
    const float other[3] = {1.0f, 0.0f, 3.0000002f};
    assert_false(holds(&exact, true, DTYPE_F32, other, wanted, 3, &worst));
    assert_int_equal(worst.element, 2);
}

static void test_units_in_the_last_place(void **state) {
    (void)state;
    struct difference worst;
    const struct tolerance two = {TOLERANCE_ULP, 2, 0, ""};
    const float wanted[2] = {1.0f, 100.0f};
    const float near[2] = {1.0f + 2 * 0x1p-23f, 100.0f};
    const float far[2] = {1.0f + 3 * 0x1p-23f, 100.0f};
    assert_true(holds(&two, false, DTYPE_F32, near, wanted, 2, &worst));
    assert_true(worst.measure == 2.0);
    assert_false(holds(&two, false, DTYPE_F32, far, wanted, 2, &worst));
    assert_true(worst.measure == 3.0 && worst.element == 0);
    /* bf16 has 2^-7 above 1. */
    const float coarse[2] = {1.0f + 3 * 0x1p-7f, 100.0f};
    assert_true(holds(&two, false, DTYPE_BF16, far, wanted, 2, &worst));
    assert_false(holds(&two, false, DTYPE_BF16, coarse, wanted, 2, &worst));
    /* With a floor of 1/4 the unit of the first element is that of 25. */
    const struct tolerance with_floor = {TOLERANCE_ULP, 2, 0.25, ""};
    const float cancelled[2] = {1.0f + 2 * 0x1p-19f, 100.0f};
    assert_false(holds(&two, false, DTYPE_F32, cancelled, wanted, 2, &worst));
    assert_true(holds(&with_floor, false, DTYPE_F32, cancelled, wanted, 2, &worst));
}

static void test_energy_of_the_error(void **state) {
    (void)state;
    struct difference worst;
    const struct tolerance tolerance = {TOLERANCE_NMSE, 1e-6, 1e-4, ""};
    float wanted[16];
    float got[16];
    for (int i = 0; i < 16; i++) {
        wanted[i] = i % 2 == 0 ? 1.0f : -1.0f;
        got[i] = wanted[i];
    }
    got[5] += 0.0625f; /* 2^-8 / 16 = 2.4e-4 */
    assert_false(holds(&tolerance, false, DTYPE_F32, got, wanted, 16, &worst));
    assert_int_equal(worst.element, 5);
    assert_true(fabs(worst.measure - 0x1p-12) < 1e-9);
    got[5] = wanted[5] + 0.03125f; /* 6e-5 */
    assert_true(holds(&tolerance, false, DTYPE_F32, got, wanted, 16, &worst));
}

static void test_not_a_number_is_never_near(void **state) {
    (void)state;
    struct difference worst;
    const struct tolerance classes[] = {{TOLERANCE_ULP, 1e9, 0, ""}, {TOLERANCE_NMSE, 1e9, 1e9, ""}};
    const float wanted[2] = {1.0f, 2.0f};
    const float broken[2] = {1.0f, NAN};
    for (int i = 0; i < 2; i++) {
        assert_false(holds(&classes[i], false, DTYPE_F32, broken, wanted, 2, &worst));
        assert_int_equal(worst.element, 1);
        assert_false(holds(&classes[i], false, DTYPE_F32, wanted, broken, 2, &worst));
        assert_true(holds(&classes[i], false, DTYPE_F32, broken, broken, 2, &worst));
    }
}

/* The mean of many rows has a limit of its own, which one row alone need not meet. */
static void test_mean_of_rows_has_its_own_limit(void **state) {
    (void)state;
    enum { ROWS = 64, COLUMNS = 8 };
    struct difference worst;
    const struct tolerance tolerance = {TOLERANCE_NMSE, 1e-6, 1e-4, ""};
    static float wanted[ROWS * COLUMNS];
    static float got[ROWS * COLUMNS];
    bool present[ROWS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        wanted[i] = 1.0f;
        got[i] = i == 0 ? 1.0f + 0x1p-7f : 1.0f; /* 2^-14 / 8 in one row, 1.2e-7 on average */
        present[i / COLUMNS] = true;
    }
    struct comparison comparison = {got, wanted, present, ROWS, COLUMNS, DTYPE_BF16};
    assert_true(tolerance_holds(&tolerance, false, &comparison, &worst));
    for (int i = 0; i < ROWS * COLUMNS; i += COLUMNS) {
        got[i] = 1.0f + 0x1p-7f;
    }
    assert_false(tolerance_holds(&tolerance, false, &comparison, &worst));
    /* Rows that are not written do not count. */
    for (int row = 1; row < ROWS; row++) {
        present[row] = false;
    }
    assert_true(tolerance_holds(&tolerance, false, &comparison, &worst));
}

static void test_plans_find_their_rows(void **state) {
    (void)state;
    struct case_plan plan;
    struct case_plan reversed;
    struct case_plan single;
    for (int stateful = 0; stateful < 2; stateful++) {
        case_plan_init(&plan, CASE_PLAN_MANY, stateful != 0, 7);
        case_plan_reverse(&plan, &reversed);
        assert_int_equal(plan.row_count, 130);
        assert_int_equal(reversed.row_count, 130);
        for (int64_t row = 0; row < plan.row_count; row++) {
            int32_t position;
            int32_t same;
            const struct case_segment *segment = case_plan_row(&plan, row, &position);
            assert_int_equal(case_plan_find(&plan, segment->sequence, position), row);
            int64_t at = case_plan_find(&reversed, segment->sequence, position);
            assert_int_equal(case_plan_row(&reversed, at, &same)->sequence, segment->sequence);
            assert_int_equal(same, position);
            case_plan_single(&plan, row, &single);
            assert_int_equal(single.row_count, 1);
            assert_int_equal(case_plan_find(&single, segment->sequence, position), 0);
        }
        assert_int_equal(case_plan_find(&plan, 1000, 0), -1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_tells_zeros_apart),
        cmocka_unit_test(test_units_in_the_last_place),
        cmocka_unit_test(test_energy_of_the_error),
        cmocka_unit_test(test_not_a_number_is_never_near),
        cmocka_unit_test(test_mean_of_rows_has_its_own_limit),
        cmocka_unit_test(test_plans_find_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
