/*
 * Every kernel of sparse_attention: all counts of keys around the blocks that kernels work in, the split of
 * heads over threads, and numbers that are not finite.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/cpu_kernels.h"
#include "ops/sparse_attention.h"
#include "support/op_fixture.h"

enum { HEADS = 18, WIDTH = 192, PLAIN = 48, WINDOW = 70, ROWS = 75 };

struct scene {
    struct op_fixture *fixture;
    enum numerics numerics;
    struct row_layout layout;
    struct batch_view batch;
    struct weight sink;
    struct sparse_attention_args args;
};

/* The first `rows` rows of a sequence, random. The caller keeps the scene in place. */
static void make_scene(struct scene *scene, struct op_fixture *fixture, enum numerics numerics, int rows) {
    static float queries[ROWS * HEADS * WIDTH];
    static float keys[ROWS * WIDTH];
    float sinks[HEADS];
    op_fixture_random_fill(fixture, queries, ROWS * HEADS * WIDTH);
    op_fixture_random_fill(fixture, keys, ROWS * WIDTH);
    op_fixture_random_fill(fixture, sinks, HEADS);
    *scene = (struct scene){.fixture = fixture, .numerics = numerics};
    enum dtype dtype = numerics_activation_dtype(numerics);
    scene->layout = numerics_row_layout(numerics, ROW_KIND_KV, WIDTH, PLAIN);
    scene->batch = op_fixture_batch(fixture, &(struct op_segment){0, 0, rows}, 1, NULL);
    scene->sink = op_fixture_plain(fixture, DTYPE_F32, 1, HEADS, sinks);
    scene->args = (struct sparse_attention_args){
        .out = OP_TENSOR(fixture, dtype, NULL, rows, HEADS, WIDTH),
        .queries = OP_TENSOR(fixture, dtype, queries, rows, HEADS, WIDTH),
        .window_rows = {.rows = op_fixture_encoded(fixture, scene->layout, keys, rows),
                        .ring = op_fixture_ring(fixture, scene->layout, WINDOW, 1)},
        .sink = &scene->sink,
        .batch = &scene->batch,
        .window = WINDOW,
        .scale = 0.5f,
    };
}

static void run_entry(struct scene *scene, const struct op_entry *entry, float *out) {
    struct op_fixture *fixture = scene->fixture;
    struct op_queue *queue = op_fixture_plan(fixture, scene->numerics);
    op_table_build(&fixture->table, &entry, 1, 1u << (unsigned)scene->numerics, ~0u);
    op_fixture_expect_ok(op_sparse_attention(queue, &scene->args));
    op_fixture_expect_ok(op_sparse_attention(op_fixture_prepare(fixture), &scene->args));
    op_fixture_finish(fixture);
    op_fixture_read(fixture, scene->args.out, out);
}

/* Calls check(scene, entry) for every kernel that this processor runs, the reference first. */
static void for_each_kernel(struct scene *scene,
                            void (*check)(struct scene *scene, const struct op_entry *entry)) {
    const struct op_entry *entries[CPU_KERNELS_MAX];
    int checked_count = 0;
    for (size_t i = cpu_kernels_collect(entries); i-- > 0;) {
        const struct op_entry *entry = entries[i];
        if (entry->op == OP_SPARSE_ATTENTION && (entry->features & ~cpu_features_detect()) == 0 &&
            (entry->modes & 1u << (unsigned)scene->numerics) != 0) {
            check(scene, entry);
            checked_count++;
        }
    }
    assert_true(checked_count >= 2);
}

static float expected[ROWS * HEADS * WIDTH];
static float actual[ROWS * HEADS * WIDTH];

/* Squared error over squared size, row by row: row t has min(t + 1, WINDOW) keys. */
static void expect_near_reference(struct scene *scene, const struct op_entry *entry) {
    bool is_reference = strcmp(entry->arithmetic, "reference") == 0;
    run_entry(scene, entry, is_reference ? expected : actual);
    /* Native: a probability, the result and the reference's result may each be rounded to bf16. */
    double limit = scene->numerics == NUMERICS_IDEAL ? 1e-10 : pow(3 * 0x1p-9, 2.0);
    for (int64_t head = 0; !is_reference && head < scene->batch.row_count * HEADS; head++) {
        double error = 0.0;
        double size = 0.0;
        for (int64_t i = head * WIDTH; i < (head + 1) * WIDTH; i++) {
            error += pow((double)actual[i] - (double)expected[i], 2.0);
            size += pow((double)expected[i], 2.0);
        }
        if (!(error <= limit * size)) {
            fail_msg("%s: row %d head %d is off by %g", entry->name, (int)(head / HEADS), (int)(head % HEADS),
                     error / size);
        }
    }
}

static void every_count_of_keys(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, (enum numerics)numerics, ROWS);
        for_each_kernel(&scene, expect_near_reference);
    }
}

/* One row and few rows: heads are shared out in several ways. */
static void expect_same_bits_on_all_threads(struct scene *scene, const struct op_entry *entry) {
    const unsigned thread_counts[] = {2, 3, 5, 40};
    size_t bytes = tensor_elements(&scene->args.out) * sizeof *actual;
    struct worker_pool *own_pool = scene->fixture->pool;
    scene->fixture->pool = NULL;
    run_entry(scene, entry, expected);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        op_fixture_expect_ok(worker_pool_create(thread_counts[i], &scene->fixture->pool));
        run_entry(scene, entry, actual);
        worker_pool_destroy(&scene->fixture->pool);
        if (memcmp(actual, expected, bytes) != 0) {
            fail_msg("%s: other bits with %u threads", entry->name, thread_counts[i]);
        }
    }
    scene->fixture->pool = own_pool;
}

static void threads_change_no_bits(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        for (int rows = 1; rows <= 4; rows++) {
            struct scene scene;
            make_scene(&scene, *state, (enum numerics)numerics, rows);
            for_each_kernel(&scene, expect_same_bits_on_all_threads);
        }
    }
}

/* A step without rows. */
static void run_for_nothing(struct scene *scene, const struct op_entry *entry) {
    run_entry(scene, entry, actual);
}

static void no_rows_at_all(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, (enum numerics)numerics, 0);
        for_each_kernel(&scene, run_for_nothing);
    }
}

/* A broken key must not look like a number: the engine stops at logits that are not finite. */
static void expect_not_finite(struct scene *scene, const struct op_entry *entry) {
    run_entry(scene, entry, actual);
    for (int64_t i = 0; i < tensor_elements(&scene->args.out); i++) {
        if (isfinite(actual[i])) {
            fail_msg("%s: element %d is %g", entry->name, (int)i, (double)actual[i]);
        }
    }
}

static void broken_keys_stay_visible(void **state) {
    struct op_fixture *fixture = *state;
    struct scene scene;
    make_scene(&scene, fixture, NUMERICS_NATIVE, 1);
    unsigned char intact[2 * WIDTH + 64];
    size_t bytes = row_layout_bytes(&scene.layout);
    int64_t coded = WIDTH - PLAIN;
    op_fixture_download(fixture, scene.args.window_rows.rows, intact, bytes);
    /* A NaN code at either sign, a NaN scale, and a NaN and an infinity among the bf16 channels. */
    const struct {
        size_t at;
        unsigned char byte;
    } damages[] = {{0, 0x7F},
                   {(size_t)coded - 1, 0xFF},
                   {(size_t)coded, 255},
                   {row_layout_plain_offset(&scene.layout) + 1, 0x7F},
                   {bytes - 1, 0xFF}};
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        unsigned char row[sizeof intact];
        memcpy(row, intact, bytes);
        row[damages[i].at] = damages[i].byte;
        if (i >= 3) {
            row[damages[i].at - 1] = 0xC1; /* a NaN */
        }
        scene.args.window_rows.rows = op_fixture_upload(fixture, row, bytes);
        for_each_kernel(&scene, expect_not_finite);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(every_count_of_keys),
        OP_TEST_IN(threads_change_no_bits, "cpu"),
        OP_TEST_IN(threads_change_no_bits, "guard"),
        OP_TEST(no_rows_at_all),
        OP_TEST(broken_keys_stay_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
