/* Who has which rows, and tags that do not fit (spec parallelism G-6, S-1, appendix B.2, T-2, T-3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/collectives.h"

static const int group_sizes[] = {1, 2, 3, 4, 8};

enum { GROUP_SIZES = sizeof group_sizes / sizeof group_sizes[0], WIDTH = 6 };

/* T-2: rank i has rows i * c to (i + 1) * c - 1 of those there are, c = ceil(n / T). */
static void shares_are_those_of_the_formula(void **state) {
    (void)state;
    for (int g = 0; g < GROUP_SIZES; g++) {
        int ranks = group_sizes[g];
        for (int64_t rows = 0; rows <= 4 * ranks + 1; rows++) {
            struct row_shares shares = row_shares_even(rows, ranks);
            int64_t most = rows / ranks + (rows % ranks != 0);
            assert_int_equal(shares.first[0], 0);
            assert_int_equal(shares.first[ranks], rows);
            for (int rank = 0; rank < ranks; rank++) {
                int64_t valid = rows - rank * most;
                valid = valid < 0 ? 0 : valid > most ? most : valid;
                assert_int_equal(shares.first[rank + 1] - shares.first[rank], valid);
                for (int64_t row = shares.first[rank]; row < shares.first[rank + 1]; row++) {
                    assert_int_equal(row_shares_owner(&shares, ranks, row), rank);
                }
            }
        }
    }
}

/* B.2: n = 5, T = 4: valid = 2, 2, 1, 0. */
static void the_example_of_the_specification_holds(void **state) {
    (void)state;
    struct row_shares shares = row_shares_even(5, 4);
    static const int64_t expected[] = {0, 2, 4, 5, 5};
    assert_memory_equal(shares.first, expected, sizeof expected);
    assert_int_equal(shard_cut_rows(1, 0, 4).count, 1);
    assert_int_equal(shard_cut_rows(1, 3, 4).count, 0);
}

/* A dry step, which no rank needs others for: `rows` rows over four ranks, or on all of them. */
struct dry {
    struct device_arena arena;
    struct op_queue queue;
    struct batch_view batch;
    struct row_shares shares;
    struct step_ranks ranks;
    struct step step;
};

static void dry_init(struct dry *dry, int64_t rows, bool is_shared) {
    *dry = (struct dry){.batch = {.row_count = rows}, .ranks = {.rank = 2, .count = 4}};
    device_arena_init_planning(&dry->arena);
    dry->queue = (struct op_queue){.arena = &dry->arena, .is_dry = true};
    dry->shares = row_shares_even(rows, 4);
    dry->step = (struct step){.queue = &dry->queue,
                              .batch = &dry->batch,
                              .activation = DTYPE_F32,
                              .ranks = &dry->ranks,
                              .shares = is_shared ? &dry->shares : NULL};
}

static struct placed_rows rows_of(int64_t count, enum rows_layout layout, const struct row_shares *shares) {
    return (struct placed_rows){.tensor = {.dtype = DTYPE_F32, .rank = 2, .shape = {count, WIDTH}},
                                .layout = layout,
                                .shares = shares};
}

static void expect_refused(enum status status, const char *word) {
    assert_int_equal(status, STATUS_INTERNAL);
    if (strstr(error_last()->message, word) == NULL) {
        fail_msg("\"%s\" is not in: %s", word, error_last()->message);
    }
}

/*
 * T-3 with the number of rows that hides everything: one row, of which the rank of the dry run has one too
 * (B.2). What is refused is refused in a dry run, so before anything is computed.
 */
static void wrong_tags_are_refused(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 9; n += 8) {
        struct dry dry;
        struct placed_rows out;
        struct tensor all;
        dry_init(&dry, n, true);
        int64_t own_count = shard_cut_rows(n, 0, 4).count;
        struct placed_rows own = rows_of(own_count, ROWS_SHARD, &dry.shares);
        struct placed_rows full = rows_of(n, ROWS_FULL, NULL);
        struct placed_rows partial = rows_of(n, ROWS_PARTIAL, NULL);
        assert_int_equal(parallel_shard_rows(&dry.step, &full, &out), STATUS_OK);
        assert_int_equal(out.layout, ROWS_SHARD);
        assert_int_equal(out.tensor.shape[0], own_count);
        expect_refused(parallel_shard_rows(&dry.step, &out, &out), "SHARD");
        assert_int_equal(parallel_gather_rows(&dry.step, &own, &out), STATUS_OK);
        assert_int_equal(out.layout, ROWS_FULL);
        assert_int_equal(out.tensor.shape[0], n);
        expect_refused(parallel_gather_rows(&dry.step, &out, &out), "FULL");
        expect_refused(parallel_gather_rows(&dry.step, &partial, &out), "PARTIAL");
        expect_refused(parallel_shard_rows(&dry.step, &partial, &out), "PARTIAL");
        expect_refused(parallel_complete_rows(&dry.step, &partial, &all), "PARTIAL");
        expect_refused(parallel_reduce_to_own(&dry.step, &partial, &out), "PARTIAL");
        expect_refused(parallel_expect_own(&dry.step, &partial, "norm"), "norm");
        expect_refused(parallel_expect_own(&dry.step, &full, "norm"), "FULL");
        expect_refused(parallel_sum_rows(&dry.step, &full, &out), "FULL");
        assert_int_equal(parallel_sum_rows(&dry.step, &partial, &out), STATUS_OK);
        assert_int_equal(out.layout, ROWS_SHARD);
        assert_int_equal(out.tensor.shape[0], own_count);
    }
}

/* Where rows are not dealt out, a share is what is refused. */
static void shares_of_a_step_without_any_are_refused(void **state) {
    (void)state;
    struct dry dry;
    struct placed_rows out;
    dry_init(&dry, 1, false);
    struct placed_rows own = rows_of(1, ROWS_SHARD, &dry.shares);
    struct placed_rows full = rows_of(1, ROWS_FULL, NULL);
    expect_refused(parallel_gather_rows(&dry.step, &own, &out), "SHARD");
    expect_refused(parallel_expect_own(&dry.step, &own, "norm"), "SHARD");
    assert_int_equal(parallel_gather_rows(&dry.step, &full, &out), STATUS_OK);
    assert_int_equal(parallel_shard_rows(&dry.step, &full, &out), STATUS_OK);
    assert_int_equal(out.layout, ROWS_FULL);
}

/* Equal numbers of rows, dealt out in another way: those of another step. */
static void rows_of_another_step_are_refused(void **state) {
    (void)state;
    struct dry dry;
    struct row_shares other = row_shares_even(4, 4);
    struct placed_rows out;
    dry_init(&dry, 4, true);
    struct placed_rows own = rows_of(1, ROWS_SHARD, &other);
    expect_refused(parallel_gather_rows(&dry.step, &own, &out), "another way");
}

/* A tag that fits, with a number of rows that does not: what was made of another step. */
static void numbers_of_rows_must_be_those_of_the_tag(void **state) {
    (void)state;
    struct dry dry;
    struct placed_rows out;
    struct tensor all;
    dry_init(&dry, 9, true);
    struct placed_rows own = rows_of(2, ROWS_SHARD, &dry.shares); /* 3 of 9 */
    struct placed_rows full = rows_of(8, ROWS_FULL, NULL);
    struct placed_rows partial = rows_of(8, ROWS_PARTIAL, NULL);
    expect_refused(parallel_gather_rows(&dry.step, &own, &out), "2 rows came, tagged as a share");
    expect_refused(parallel_shard_rows(&dry.step, &full, &out), "8 rows came, tagged as all");
    expect_refused(parallel_complete_rows(&dry.step, &full, &all), "8 rows came, tagged as all");
    expect_refused(parallel_sum_rows(&dry.step, &partial, &out), "8 rows came, the step has 9");
    const struct picked_rows picked = {.own_count = 3, .count = 9, .shares = &dry.shares};
    expect_refused(parallel_gather_picked(&dry.step, &picked, own.tensor, &all),
                   "2 picked rows came, this rank has 3");
}

/* New rows are where a step's rows are, so that the next operation takes them. */
static void new_rows_are_own_ones(void **state) {
    (void)state;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct dry dry;
        struct placed_rows out;
        dry_init(&dry, 9, is_shared == 1);
        assert_int_equal(parallel_own_tensor(&dry.step, 2, WIDTH, &out), STATUS_OK);
        assert_int_equal(parallel_expect_own(&dry.step, &out, "new rows"), STATUS_OK);
        assert_int_equal(out.tensor.shape[0], is_shared ? 3 : 9);
        assert_int_equal(out.tensor.shape[1], 2);
        assert_int_equal(out.tensor.shape[2], WIDTH);
    }
}

/* S-7: a step without rows needs nobody: there is no group here that could be asked. */
static void steps_without_rows_need_nobody(void **state) {
    (void)state;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct dry dry;
        struct placed_rows out;
        dry_init(&dry, 0, is_shared == 1);
        dry.queue.is_dry = false;
        struct placed_rows own =
            is_shared ? rows_of(0, ROWS_SHARD, &dry.shares) : rows_of(0, ROWS_FULL, NULL);
        struct placed_rows partial = rows_of(0, ROWS_PARTIAL, NULL);
        assert_int_equal(parallel_gather_rows(&dry.step, &own, &out), STATUS_OK);
        assert_int_equal(out.tensor.shape[0], 0);
        assert_int_equal(parallel_sum_rows(&dry.step, &partial, &out), STATUS_OK);
        assert_int_equal(out.tensor.shape[0], 0);
    }
}

/* 3.6: attention's first projections run on all rows or, where their results are gathered, on own ones. */
static void rows_for_attention_are_gathered_early_or_late(void **state) {
    (void)state;
    const bool gathers_late[2] = {false, true}; /* by layer */
    for (int late = 0; late < 2; late++) {
        for (int is_shared = 0; is_shared < 2; is_shared++) {
            struct dry dry;
            struct placed_rows out;
            dry_init(&dry, 9, is_shared == 1);
            dry.ranks.gathers_late = gathers_late;
            struct placed_rows own =
                is_shared ? rows_of(3, ROWS_SHARD, &dry.shares) : rows_of(9, ROWS_FULL, NULL);
            assert_int_equal(parallel_rows_for_attention(&dry.step, late, &own, &out), STATUS_OK);
            assert_int_equal(out.layout, is_shared && late ? ROWS_SHARD : ROWS_FULL);
            assert_int_equal(out.tensor.shape[0], is_shared && late ? 3 : 9);
        }
    }
}

/* A product whose columns ranks share takes all rows and owes a sum; another one does neither. */
static void products_are_tagged_by_their_weight(void **state) {
    (void)state;
    struct dry dry;
    struct placed_rows out;
    dry_init(&dry, 4, true);
    struct placed_rows own = rows_of(1, ROWS_SHARD, &dry.shares);
    struct placed_rows full = rows_of(4, ROWS_FULL, NULL);
    struct leaves whole = leaves_whole(1024, 8);
    const struct weight replicated = {.name = "w", .leaves = whole};
    const struct weight cut = {.name = "w", .leaves = leaves_part(&whole, 1, 4)};
    dry.step.activation = DTYPE_BF16;
    assert_int_equal(parallel_product_dtype(&dry.step, &replicated), DTYPE_BF16);
    assert_int_equal(parallel_product_dtype(&dry.step, &cut), DTYPE_F32);
    assert_int_equal(parallel_tag_product(&dry.step, &cut, &full, full.tensor, &out), STATUS_OK);
    assert_int_equal(out.layout, ROWS_PARTIAL);
    expect_refused(parallel_tag_product(&dry.step, &cut, &own, own.tensor, &out), "SHARD");
    assert_int_equal(parallel_tag_product(&dry.step, &replicated, &own, own.tensor, &out), STATUS_OK);
    assert_int_equal(out.layout, ROWS_SHARD);
    assert_int_equal(parallel_rows_for_product(&dry.step, &cut, &own, &out), STATUS_OK);
    assert_int_equal(out.layout, ROWS_FULL);
    assert_int_equal(parallel_rows_for_product(&dry.step, &replicated, &own, &out), STATUS_OK);
    assert_int_equal(out.layout, ROWS_SHARD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_the_formula),
        cmocka_unit_test(the_example_of_the_specification_holds),
        cmocka_unit_test(wrong_tags_are_refused),
        cmocka_unit_test(shares_of_a_step_without_any_are_refused),
        cmocka_unit_test(rows_of_another_step_are_refused),
        cmocka_unit_test(numbers_of_rows_must_be_those_of_the_tag),
        cmocka_unit_test(new_rows_are_own_ones),
        cmocka_unit_test(steps_without_rows_need_nobody),
        cmocka_unit_test(rows_for_attention_are_gathered_early_or_late),
        cmocka_unit_test(products_are_tagged_by_their_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
