/*
 * Every kernel of indexer_select against the reference over long contexts: several waves of rows, several
 * blocks of entries, several sequences at once, scores that tie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/cpu_kernels.h"
#include "ops/indexer_select.h"
#include "support/op_fixture.h"

enum { HEADS = 16, WIDTH = 128, RATIO = 2, LIMIT = 40, ENTRIES = 700, SLOTS = 3, ROWS_MAX = 44 };

/* Integers, so that scores are exact in every arithmetic, and few different ones, so that they tie. */
static float small_integer(struct op_fixture *fixture) {
    float value = op_fixture_random(fixture);
    return value < -0.9f ? -1.0f : value > 0.9f ? 1.0f : 0.0f;
}

/* Makes NaNs of some keys: the last scale of every 50th. */
static void break_keys(struct op_fixture *fixture, const struct state_rows *keys) {
    const unsigned char broken = 255;
    for (int64_t i = 0; i < SLOTS * ENTRIES; i += 50) {
        unsigned char *row = op_fixture_state_at(fixture, keys, i / ENTRIES, i % ENTRIES);
        op_fixture_expect_ok(stream_copy_to_device(fixture->stream, row + keys->row_bytes - 1, &broken, 1));
    }
    op_fixture_expect_ok(stream_synchronize(fixture->stream));
}

static struct indexer_select_args make_args(struct op_fixture *fixture, enum numerics numerics,
                                            const struct batch_view *batch) {
    static float queries[ROWS_MAX * HEADS * WIDTH];
    static float keys[SLOTS * ENTRIES * WIDTH];
    float weights[ROWS_MAX * HEADS];
    enum dtype dtype = numerics_activation_dtype(numerics);
    int64_t rows = batch->row_count;
    for (int64_t i = 0; i < rows * HEADS * WIDTH; i++) {
        queries[i] = small_integer(fixture);
    }
    for (int64_t i = 0; i < rows * HEADS; i++) {
        weights[i] = 1.0f + small_integer(fixture) * 2.0f;
    }
    for (int64_t i = 0; i < SLOTS * ENTRIES * WIDTH; i++) {
        keys[i] = small_integer(fixture);
    }
    struct row_layout layout = numerics_row_layout(numerics, ROW_KIND_INDEX, WIDTH, 0);
    struct indexer_select_args args = {
        .selection = {.dtype = DTYPE_I32, .rank = 2, .shape = {rows, LIMIT}},
        .queries = OP_TENSOR(fixture, dtype, queries, rows, HEADS, WIDTH),
        .head_weights = OP_TENSOR(fixture, dtype, weights, rows, HEADS),
        .keys = op_fixture_entries(fixture, layout, ENTRIES, SLOTS),
        .batch = batch,
        .ratio = RATIO,
        .weight_scale = 0.5f,
    };
    args.selection.data = op_fixture_upload(fixture, NULL, (size_t)(rows * LIMIT) * sizeof(int32_t));
    op_fixture_state_fill(fixture, &args.keys, keys);
    if (layout.encoding == ROW_FP4) {
        break_keys(fixture, &args.keys);
    }
    return args;
}

static void run_entry(struct op_fixture *fixture, enum numerics numerics, const struct op_entry *entry,
                      const struct indexer_select_args *args, int32_t *out) {
    size_t bytes = tensor_bytes(&args->selection);
    op_fixture_expect_ok(stream_fill(fixture->stream, args->selection.data, 0xEE, bytes));
    struct op_queue *queue = op_fixture_plan(fixture, numerics);
    op_table_build(&fixture->table, &entry, 1, 1u << (unsigned)numerics, ~0u);
    op_fixture_expect_ok(op_indexer_select(queue, args));
    op_fixture_expect_ok(op_indexer_select(op_fixture_prepare(fixture), args));
    op_fixture_finish(fixture);
    op_fixture_read_integers(fixture, args->selection, out);
}

static void expect_reference_choice(struct op_fixture *fixture, const struct op_segment *segments,
                                    int count) {
    const struct op_entry *entries[CPU_KERNELS_MAX];
    size_t entry_count = cpu_kernels_collect(entries);
    struct batch_view batch = op_fixture_batch(fixture, segments, count, NULL);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        int32_t expected[ROWS_MAX * LIMIT];
        int32_t actual[ROWS_MAX * LIMIT];
        struct indexer_select_args args = make_args(fixture, (enum numerics)numerics, &batch);
        size_t bytes = tensor_bytes(&args.selection);
        /* The reference is the last of the list. */
        for (size_t i = entry_count, is_first = 1; i-- > 0;) {
            const struct op_entry *entry = entries[i];
            if (entry->op != OP_INDEXER_SELECT || (entry->features & ~cpu_features_detect()) != 0 ||
                (entry->modes & 1u << numerics) == 0) {
                continue;
            }
            run_entry(fixture, (enum numerics)numerics, entry, &args, is_first ? expected : actual);
            if (!is_first && memcmp(actual, expected, bytes) != 0) {
                fail_msg("%s chooses other entries than the reference", entry->name);
            }
            is_first = 0;
        }
    }
}

static void one_row_over_a_long_context(void **state) {
    for (int position = 1399; position > 1396; position--) {
        expect_reference_choice(*state, &(struct op_segment){1, position, 1}, 1);
    }
}

/* From rows that see all to rows that choose; blocks of 256 entries begin on the way. */
static void rows_of_one_sequence(void **state) {
    expect_reference_choice(*state, &(struct op_segment){2, LIMIT * RATIO - 20, ROWS_MAX}, 1);
    expect_reference_choice(*state, &(struct op_segment){0, 256 * RATIO - 20, ROWS_MAX}, 1);
}

static void rows_of_several_sequences(void **state) {
    const struct op_segment segments[] = {{2, 1300, 5}, {0, 0, 3}, {1, 500, 30}};
    expect_reference_choice(*state, segments, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(one_row_over_a_long_context),
        OP_TEST(rows_of_one_sequence),
        OP_TEST(rows_of_several_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
