/*
 * Where pages lie changes no bit: every kernel that reads or writes entries, over one page a slot in order,
 * against small pages in no order.
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
#include "ops/compress_entries.h"
#include "ops/indexer_select.h"
#include "ops/sparse_attention.h"
#include "support/op_fixture.h"

enum {
    HEADS = 16,
    WIDTH = 128,
    PLAIN = 64,
    RATIO = 4,
    SLOTS = 3,
    ENTRIES = 25,
    ROWS = 30,
    LIMIT = 9,
    WINDOW = 4
};

/* Up to 24 entries; rows that end blocks and rows that do not. */
static const struct op_segment segments[] = {{1, 0, 21}, {0, 37, 3}, {2, 91, 6}};

struct scene {
    struct op_fixture *fixture;
    enum numerics numerics;
    enum dtype dtype;
    struct batch_view batch;
    float values[SLOTS * ENTRIES * WIDTH]; /* of entries */
    float queries[ROWS * HEADS * WIDTH];
    float raw[ROWS * 4 * WIDTH];
    float ring[SLOTS * 2 * RATIO * 4 * WIDTH];
    struct weight norm;
    struct weight sink;
    struct rope_table rope;
};

/* Runs one kernel over a store and gives the bytes of its result. */
typedef size_t (*run_kernel)(struct scene *scene, const struct op_entry *entry,
                             const struct state_rows *store, unsigned char *out);

#define RESULT_BYTES (ROWS * HEADS * WIDTH * sizeof(float))

#define RUN_ENTRY(scene, entry, name, args)                                                            \
    do {                                                                                               \
        struct op_queue *queue = op_fixture_plan((scene)->fixture, (scene)->numerics);                 \
        op_table_build(&(scene)->fixture->table, &(entry), 1, 1u << (unsigned)(scene)->numerics, ~0u); \
        op_fixture_expect_ok(op_##name(queue, (args)));                                                \
        op_fixture_expect_ok(op_##name(op_fixture_prepare((scene)->fixture), (args)));                 \
        op_fixture_finish((scene)->fixture);                                                           \
    } while (0)

static size_t take(struct scene *scene, const struct tensor *tensor, unsigned char *out) {
    assert_true(tensor_bytes(tensor) <= RESULT_BYTES);
    op_fixture_download(scene->fixture, tensor->data, out, tensor_bytes(tensor));
    return tensor_bytes(tensor);
}

static size_t run_indexer_select(struct scene *scene, const struct op_entry *entry,
                                 const struct state_rows *store, unsigned char *out) {
    struct op_fixture *fixture = scene->fixture;
    struct indexer_select_args args = {
        .selection = {.dtype = DTYPE_I32, .rank = 2, .shape = {ROWS, LIMIT}},
        .queries = OP_TENSOR(fixture, scene->dtype, scene->queries, ROWS, HEADS, WIDTH),
        .head_weights = OP_TENSOR(fixture, scene->dtype, scene->raw, ROWS, HEADS),
        .keys = *store,
        .batch = &scene->batch,
        .ratio = RATIO,
        .weight_scale = 0.25f,
    };
    args.selection.data = op_fixture_upload(fixture, NULL, tensor_bytes(&args.selection));
    RUN_ENTRY(scene, entry, indexer_select, &args);
    return take(scene, &args.selection, out);
}

static size_t run_attention(struct scene *scene, const struct op_entry *entry, const struct state_rows *store,
                            struct tensor selection, unsigned char *out) {
    struct op_fixture *fixture = scene->fixture;
    struct sparse_attention_args args = {
        .out = OP_TENSOR(fixture, scene->dtype, NULL, ROWS, HEADS, WIDTH),
        .queries = OP_TENSOR(fixture, scene->dtype, scene->queries, ROWS, HEADS, WIDTH),
        .window_rows = {.rows = op_fixture_encoded(fixture, store->layout, scene->raw, ROWS),
                        .ring = op_fixture_ring(fixture, store->layout, WINDOW, SLOTS)},
        .entries = *store,
        .selection = selection,
        .sink = &scene->sink,
        .batch = &scene->batch,
        .window = WINDOW,
        .ratio = RATIO,
        .scale = 0.1f,
    };
    op_fixture_state_fill(fixture, &args.window_rows.ring, scene->ring);
    RUN_ENTRY(scene, entry, sparse_attention, &args);
    return take(scene, &args.out, out);
}

static size_t run_full_attention(struct scene *scene, const struct op_entry *entry,
                                 const struct state_rows *store, unsigned char *out) {
    return run_attention(scene, entry, store, (struct tensor){.rank = 0}, out);
}

/* Entries 0, 3, 6, ... as far as a row sees them. */
static size_t run_selected_attention(struct scene *scene, const struct op_entry *entry,
                                     const struct state_rows *store, unsigned char *out) {
    int32_t selected[ROWS][LIMIT];
    int64_t row = 0;
    for (size_t s = 0; s < sizeof segments / sizeof segments[0]; s++) {
        for (int32_t i = 0; i < segments[s].row_count; i++, row++) {
            int32_t visible = (segments[s].first_position + i + 1) / RATIO;
            for (int32_t k = 0; k < LIMIT; k++) {
                selected[row][k] = 3 * k < visible ? 3 * k : -1;
            }
        }
    }
    struct tensor selection = {.dtype = DTYPE_I32, .rank = 2, .shape = {ROWS, LIMIT}};
    selection.data = op_fixture_upload(scene->fixture, selected, sizeof selected);
    return run_attention(scene, entry, store, selection, out);
}

/* The result is the store: what was written, and all else as it was. */
static size_t run_compress_entries(struct scene *scene, const struct op_entry *entry,
                                   const struct state_rows *store, unsigned char *out) {
    struct op_fixture *fixture = scene->fixture;
    struct row_layout raw = {.encoding = ROW_F32, .width = 4 * WIDTH};
    struct compress_entries_args args = {
        .raw = {.rows = op_fixture_encoded(fixture, raw, scene->raw, ROWS),
                .ring = op_fixture_ring(fixture, raw, 2 * RATIO, SLOTS)},
        .entries = *store,
        .batch = &scene->batch,
        .norm = &scene->norm,
        .rope = &scene->rope,
        .rounding = scene->dtype,
        .ratio = RATIO,
        .width = WIDTH,
        .has_overlap = true,
        .epsilon = 1e-6f,
    };
    op_fixture_state_fill(fixture, &args.raw.ring, scene->ring);
    RUN_ENTRY(scene, entry, compress_entries, &args);
    op_fixture_state_download(fixture, store, out);
    return (size_t)(SLOTS * ENTRIES) * store->row_bytes;
}

static void make_scene(struct scene *scene, struct op_fixture *fixture, enum numerics numerics) {
    float weights[WIDTH];
    scene->fixture = fixture;
    scene->numerics = numerics;
    scene->dtype = numerics_activation_dtype(numerics);
    scene->batch = op_fixture_batch(fixture, segments, sizeof segments / sizeof segments[0], NULL);
    op_fixture_random_fill(fixture, scene->values, SLOTS * ENTRIES * WIDTH);
    op_fixture_random_fill(fixture, scene->queries, ROWS * HEADS * WIDTH);
    op_fixture_random_fill(fixture, scene->raw, ROWS * 4 * WIDTH);
    op_fixture_random_fill(fixture, scene->ring, SLOTS * 2 * RATIO * 4 * WIDTH);
    op_fixture_random_fill(fixture, weights, WIDTH);
    scene->norm = op_fixture_plain(fixture, DTYPE_F32, 1, WIDTH, weights);
    scene->sink = op_fixture_plain(fixture, DTYPE_F32, 1, HEADS, weights);
    rope_table_init(&scene->rope, PLAIN / 2, 10000.0, NULL);
}

static void expect_same_bits(struct scene *scene, const struct op_entry *entry, enum row_kind kind,
                             run_kernel run) {
    static const int64_t page_rows[] = {1, 3, 7};
    struct row_layout layout =
        numerics_row_layout(scene->numerics, kind, WIDTH, kind == ROW_KIND_KV ? PLAIN : 0);
    unsigned char *expected = calloc(2, RESULT_BYTES);
    assert_non_null(expected);
    unsigned char *actual = expected + RESULT_BYTES;
    size_t mark = op_fixture_mark(scene->fixture);
    struct state_rows store = op_fixture_pages(scene->fixture, layout, ENTRIES, SLOTS, ENTRIES, true);
    op_fixture_state_fill(scene->fixture, &store, scene->values);
    size_t bytes = run(scene, entry, &store, expected);
    for (size_t i = 0; i < sizeof page_rows / sizeof page_rows[0]; i++) {
        op_fixture_release(scene->fixture, mark);
        store = op_fixture_pages(scene->fixture, layout, ENTRIES, SLOTS, page_rows[i], false);
        op_fixture_state_fill(scene->fixture, &store, scene->values);
        run(scene, entry, &store, actual);
        if (memcmp(actual, expected, bytes) != 0) {
            fail_msg("%s gives other bits with pages of %lld rows", entry->name, (long long)page_rows[i]);
        }
    }
    op_fixture_release(scene->fixture, mark);
    free(expected);
}

static void expect_of_all_kernels(struct op_fixture *fixture, enum op_id op, enum row_kind kind,
                                  run_kernel run) {
    const struct op_entry *entries[CPU_KERNELS_MAX];
    size_t count = cpu_kernels_collect(entries);
    struct scene *scene = calloc(1, sizeof *scene);
    int checked_count = 0;
    assert_non_null(scene);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        make_scene(scene, fixture, (enum numerics)numerics);
        for (size_t i = 0; i < count; i++) {
            if (entries[i]->op == op && (entries[i]->features & ~cpu_features_detect()) == 0 &&
                (entries[i]->modes & 1u << numerics) != 0) {
                expect_same_bits(scene, entries[i], kind, run);
                checked_count++;
            }
        }
    }
    assert_true(checked_count >= 4);
    free(scene);
}

static void indexer_selects_alike(void **state) {
    expect_of_all_kernels(*state, OP_INDEXER_SELECT, ROW_KIND_INDEX, run_indexer_select);
}

static void attention_attends_alike(void **state) {
    expect_of_all_kernels(*state, OP_SPARSE_ATTENTION, ROW_KIND_KV, run_full_attention);
    expect_of_all_kernels(*state, OP_SPARSE_ATTENTION, ROW_KIND_KV, run_selected_attention);
}

static void compressors_write_alike(void **state) {
    expect_of_all_kernels(*state, OP_COMPRESS_ENTRIES, ROW_KIND_KV, run_compress_entries);
    expect_of_all_kernels(*state, OP_COMPRESS_ENTRIES, ROW_KIND_INDEX, run_compress_entries);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(indexer_selects_alike),
        OP_TEST(attention_attends_alike),
        OP_TEST(compressors_write_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
