/*
 * The leaves of tensor/leaves.h: which columns they hold, and that a plan adds them up as the tree says,
 * walked here level by level with the empty leaves in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/leaves.h"

/* Spec parallelism 1.5: 24 blocks of V4-Pro's experts in 16 leaves, one or two each. */
static void leaves_hold_whole_blocks(void **state) {
    (void)state;
    static const int first_blocks[] = {0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24};
    struct leaves pro = leaves_whole(3072, 16);
    for (int leaf = 0; leaf <= 16; leaf++) {
        assert_int_equal(leaf_first_column(&pro, leaf), 128 * first_blocks[leaf]);
    }
    /* Groups of 1024 columns are leaves of their own. */
    struct leaves groups = leaves_whole(8192, 8);
    assert_int_equal(leaf_first_column(&groups, 5), 5120);
    /* Three blocks, the last one short: leaves 5, 10 and 15. */
    struct leaves few = leaves_whole(300, 16);
    assert_int_equal(leaf_first_column(&few, 5), 0);
    assert_int_equal(leaf_first_column(&few, 6), 128);
    assert_int_equal(leaf_first_column(&few, 11), 256);
    assert_int_equal(leaf_first_column(&few, 15), 256);
    assert_int_equal(leaf_first_column(&few, 16), 300);
}

/* Thirteen blocks over two ranks: six and seven (G-9). The leaves of a part are those of the whole. */
static void parts_keep_their_leaves(void **state) {
    (void)state;
    struct leaves whole = leaves_whole(13 * 128, 16);
    struct leaves low = leaves_part(&whole, 0, 2);
    struct leaves high = leaves_part(&whole, 1, 2);
    assert_int_equal(leaves_columns(&low), 6 * 128);
    assert_int_equal(leaves_columns(&high), 7 * 128);
    struct leaf_plan plan = leaf_plan_make(&whole, 13 * 128);
    struct leaf_plan low_plan = leaf_plan_make(&low, 6 * 128);
    struct leaf_plan high_plan = leaf_plan_make(&high, 7 * 128);
    assert_int_equal(plan.step_count, low_plan.step_count + high_plan.step_count);
    for (int s = 0; s < low_plan.step_count; s++) {
        assert_int_equal(low_plan.steps[s].first_column, plan.steps[s].first_column);
        assert_int_equal(low_plan.steps[s].end_column, plan.steps[s].end_column);
    }
    for (int s = 0; s < high_plan.step_count; s++) {
        const struct leaf_step *step = &plan.steps[low_plan.step_count + s];
        assert_int_equal(high_plan.steps[s].first_column, step->first_column - 6 * 128);
        assert_int_equal(high_plan.steps[s].end_column, step->end_column - 6 * 128);
    }
}

/* Numbers whose sums depend on the order. */
static float leaf_value(int leaf) {
    return 1.0f / (float)(3 + 7 * leaf) * (leaf % 3 == 1 ? -1000.0f : 1.0f);
}

/* The tree as written: neighbours pairwise, the odd last one as it is, empty leaves +0.0. */
static float tree_sum(const struct leaves *leaves) {
    float level[LEAF_COUNT_MAX];
    int count = leaves->count;
    for (int leaf = 0; leaf < count; leaf++) {
        int64_t columns = leaf_first_column(leaves, leaf + 1) - leaf_first_column(leaves, leaf);
        level[leaf] = columns > 0 ? leaf_value(leaf) : 0.0f;
    }
    for (; count > 1; count = (count + 1) / 2) {
        for (int node = 0; node < (count + 1) / 2; node++) {
            level[node] = level[2 * node] + (2 * node + 1 < count ? level[2 * node + 1] : 0.0f);
        }
    }
    return level[0];
}

static float plan_sum(const struct leaves *leaves, int64_t columns) {
    struct leaf_plan plan = leaf_plan_make(leaves, columns);
    float sums[LEAF_STACK_MAX] = {0};
    int64_t column = 0;
    int depth = 0;
    for (int s = 0; s < plan.step_count; s++) {
        const struct leaf_step *step = &plan.steps[s];
        int leaf = 0;
        while (leaf_first_column(leaves, leaf + 1) <= step->first_column) {
            leaf++;
        }
        assert_int_equal(step->first_column, column);
        assert_int_equal(step->end_column, leaf_first_column(leaves, leaf + 1));
        column = step->end_column;
        assert_true(depth < LEAF_STACK_MAX && step->merge_count <= depth);
        depth = leaf_push(sums, depth, leaf_value(leaf), step->merge_count);
    }
    assert_int_equal(column, columns);
    assert_int_equal(depth, 1);
    return sums[0];
}

static void plans_add_up_as_the_tree(void **state) {
    (void)state;
    for (int count = 2; count <= LEAF_COUNT_MAX; count++) {
        for (int64_t blocks = 1; blocks <= 40; blocks++) {
            int64_t columns = 128 * blocks - blocks % 3 * 5;
            struct leaves leaves = leaves_whole(columns, count);
            float expected = tree_sum(&leaves);
            float actual = plan_sum(&leaves, columns);
            assert_memory_equal(&actual, &expected, sizeof actual);
        }
    }
}

/* A weight that says nothing of leaves, one leaf, and a rank without columns: one step. */
static void plain_sums_are_one_step(void **state) {
    (void)state;
    const struct leaves whole = leaves_whole(128, 16);
    const struct leaves cases[] = {{0}, leaves_whole(700, 1), leaves_part(&whole, 0, 2)};
    const int64_t columns[] = {700, 700, 0};
    for (int i = 0; i < 3; i++) {
        struct leaf_plan plan = leaf_plan_make(&cases[i], columns[i]);
        assert_int_equal(plan.step_count, 1);
        assert_int_equal(plan.steps[0].first_column, 0);
        assert_int_equal(plan.steps[0].end_column, columns[i]);
        assert_int_equal(plan.steps[0].merge_count, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_hold_whole_blocks),
        cmocka_unit_test(parts_keep_their_leaves),
        cmocka_unit_test(plans_add_up_as_the_tree),
        cmocka_unit_test(plain_sums_are_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
