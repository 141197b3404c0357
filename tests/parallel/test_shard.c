/* Cuts of axes: the examples of spec parallelism G-9 and G-14, and that nothing is lost or doubled (T-5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/shard.h"
#include "tensor/leaves.h"

/* Parts in order, without gaps, together the whole axis. Returns the smallest and largest part. */
struct extent {
    int64_t smallest, largest;
};

typedef struct shard_range (*cutter)(int64_t length, int64_t unit, int index, int parts);

static struct shard_range cut_vocabulary(int64_t length, int64_t unit, int index, int parts) {
    (void)unit;
    return shard_cut_vocabulary(length, index, parts);
}

static struct extent expect_cover(cutter cut, int64_t length, int64_t unit, int parts) {
    struct extent extent = {length, 0};
    int64_t next = 0;
    for (int i = 0; i < parts; i++) {
        struct shard_range range = cut(length, unit, i, parts);
        assert_true(range.count >= 0);
        assert_int_equal(range.first, next);
        assert_true(range.first % unit == 0 || range.first == length);
        next += range.count;
        extent.smallest = range.count < extent.smallest ? range.count : extent.smallest;
        extent.largest = range.count > extent.largest ? range.count : extent.largest;
    }
    assert_int_equal(next, length);
    return extent;
}

/* Pro's shared expert has 24 blocks, a dense layer of V3.2 has 144, its shared expert 16. */
static void uneven_cuts_are_those_of_the_specification(void **state) {
    (void)state;
    struct extent shared = expect_cover(shard_cut, 24 * 128, 128, 16);
    assert_int_equal(shared.smallest, 128);
    assert_int_equal(shared.largest, 2 * 128);
    struct extent dense = expect_cover(shard_cut, 144 * 128, 128, 32);
    assert_int_equal(dense.smallest, 4 * 128);
    assert_int_equal(dense.largest, 5 * 128);
    int idle = 0;
    for (int i = 0; i < 32; i++) {
        idle += shard_cut(16 * 128, 128, i, 32).count == 0;
    }
    assert_int_equal(idle, 16);
    expect_cover(shard_cut, 16 * 128, 128, 32);
}

static void every_cut_covers_its_axis_once(void **state) {
    (void)state;
    for (int64_t length = 0; length < 700; length += 37) {
        for (int64_t unit = 1; unit <= 128; unit *= 4) {
            for (int parts = 1; parts <= 17; parts++) {
                expect_cover(shard_cut, length, unit, parts);
            }
        }
    }
}

/* G-14: ceil(V / T) rounded up to 64. */
static void vocabularies_are_cut_at_64_rows(void **state) {
    (void)state;
    for (int parts = 1; parts <= 64; parts++) {
        expect_cover(cut_vocabulary, 129280, 64, parts);
        struct shard_range first = shard_cut_vocabulary(129280, 0, parts);
        int64_t least = (129280 + parts - 1) / parts;
        assert_true(first.count >= least && first.count < least + 64);
        assert_int_equal(first.count % 64, 0);
    }
    assert_int_equal(shard_cut_vocabulary(129280, 7, 8).first, 7 * 16192);
    assert_int_equal(shard_cut_vocabulary(129280, 7, 8).count, 129280 - 7 * 16192);
    /* Small vocabularies leave the last ranks without a row. */
    assert_int_equal(shard_cut_vocabulary(100, 1, 4).count, 36);
    assert_int_equal(shard_cut_vocabulary(100, 2, 4).count, 0);
    expect_cover(cut_vocabulary, 100, 1, 4);
}

/* B.1: rank 4 of the example is number 2 of 4 and holds experts 128 to 191 of 256. */
static void experts_are_dealt_out_evenly(void **state) {
    (void)state;
    assert_int_equal(shard_cut_experts(256, 2, 4).first, 128);
    assert_int_equal(shard_cut_experts(256, 2, 4).count, 64);
    for (int parts = 1; parts <= 48; parts++) {
        int64_t count = 0;
        for (int i = 0; i < parts; i++) {
            struct shard_range range = shard_cut_experts(384, i, parts);
            assert_int_equal(range.first, count);
            assert_in_range(range.count, 384 / parts, (384 + parts - 1) / parts);
            count += range.count;
        }
        assert_int_equal(count, 384);
    }
}

/* Ranks of a power of two hold whole leaves, so that each computes one node of the tree of sums. */
static void cuts_by_blocks_are_leaves(void **state) {
    (void)state;
    for (int64_t columns = 128; columns <= 70 * 128; columns += 128) {
        struct leaves whole = leaves_whole(columns, LEAF_COUNT_MAX);
        for (int parts = 1; parts <= LEAF_COUNT_MAX; parts *= 2) {
            for (int i = 0; i < parts; i++) {
                struct leaves part = leaves_part(&whole, i, parts);
                struct shard_range range = shard_cut(columns, LEAF_BLOCK, i, parts);
                assert_int_equal(range.first, leaf_first_column(&part, part.first));
                assert_int_equal(range.count, leaves_columns(&part));
            }
        }
    }
}

/* Parts of a matrix, cut by rows and then by columns, put together again: each element once (T-5). */
static void parts_reassemble_to_the_matrix(void **state) {
    (void)state;
    enum { ROWS = 45, COLUMNS = 52 };
    int counts[ROWS][COLUMNS] = {{0}};
    for (int i = 0; i < 4; i++) {
        struct shard_range rows = shard_cut(ROWS, 8, i, 4);
        for (int j = 0; j < 3; j++) {
            struct shard_range columns = shard_cut(COLUMNS, 16, j, 3);
            for (int64_t r = rows.first; r < rows.first + rows.count; r++) {
                for (int64_t c = columns.first; c < columns.first + columns.count; c++) {
                    counts[r][c]++;
                }
            }
        }
    }
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            assert_int_equal(counts[r][c], 1);
        }
    }
}

/* Table 1.3: embedding first (and last for drafts), head last, drafts last and only if wanted. */
static void stages_hold_what_the_table_says(void **state) {
    (void)state;
    static const int first_layers[] = {0, 3, 5, 8};
    for (int drafts = 0; drafts < 2; drafts++) {
        for (int stage = 0; stage < 3; stage++) {
            const struct shard_layout layout = {.mesh = {1, 3, 1, 1, false},
                                                .place = {.pipeline = stage},
                                                .first_layers = first_layers,
                                                .has_draft = drafts == 1};
            assert_int_equal(shard_is_on_stage(&layout, STAGE_FIRST, -1), stage == 0);
            assert_int_equal(shard_is_on_stage(&layout, STAGE_LAST, -1), stage == 2);
            assert_int_equal(shard_is_on_stage(&layout, STAGE_FIRST_AND_DRAFT, -1),
                             stage == 0 || (stage == 2 && drafts == 1));
            assert_int_equal(shard_is_on_stage(&layout, STAGE_DRAFT, 8), stage == 2 && drafts == 1);
            static const int owners[] = {0, 0, 0, 1, 1, 2, 2, 2};
            for (int layer = 0; layer < 8; layer++) {
                assert_int_equal(shard_is_on_stage(&layout, STAGE_OF_LAYER, layer), owners[layer] == stage);
            }
            assert_false(shard_is_on_stage(&layout, STAGE_OF_LAYER, -1));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_cuts_are_those_of_the_specification),
        cmocka_unit_test(every_cut_covers_its_axis_once),
        cmocka_unit_test(vocabularies_are_cut_at_64_rows),
        cmocka_unit_test(experts_are_dealt_out_evenly),
        cmocka_unit_test(cuts_by_blocks_are_leaves),
        cmocka_unit_test(parts_reassemble_to_the_matrix),
        cmocka_unit_test(stages_hold_what_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
