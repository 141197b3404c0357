/*
 * The bits of a row do not depend on its company: each row alone, then among 1 to 17 others in shuffled
 * order.
 *
 * A subject is one operation over ROWS different rows; its `run` computes the listed rows in one launch and
 * gives the bytes of each row's result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/compress_entries.h"
#include "ops/grouped_linear.h"
#include "ops/hyper_connection_head.h"
#include "ops/hyper_connection_pre.h"
#include "ops/indexer_select.h"
#include "ops/linear.h"
#include "ops/moe_experts.h"
#include "ops/rms_norm.h"
#include "ops/route_experts.h"
#include "ops/sparse_attention.h"
#include "support/op_fixture.h"

enum {
    ROWS = 18,
    INPUT = 384, /* floats of a row's input; subjects take as many as they need */
    RESULT_BYTES = 4096,
    STREAMS = 4,
    WIDTH = 96,
    HEADS = 3,
    KEY_WIDTH = 64,
    WINDOW = 5,
    RATIO = 4,
    ENTRIES = 16,
    PICKS = 2,
    EXPERTS = 5,
};

struct scene {
    struct op_fixture *fixture;
    enum numerics numerics;
    enum dtype dtype;
    float inputs[ROWS][INPUT];
    int32_t positions[ROWS]; /* row i belongs to slot i */
    struct weight weights[3];
    struct weight experts[3][EXPERTS];
    struct state_rows ring;
    struct state_rows entries;
};

typedef void (*run_rows)(struct scene *scene, const int *order, int count, unsigned char *out);

static struct weight random_weight(struct scene *scene, enum weight_format format, int64_t rows,
                                   int64_t columns) {
    double *unused = malloc((size_t)(rows * columns) * sizeof *unused);
    assert_non_null(unused);
    struct weight weight = op_fixture_random_weight(scene->fixture, format, rows, columns, unused);
    free(unused);
    return weight;
}

static struct weight random_floats(struct scene *scene, int64_t rows, int64_t columns) {
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    assert_non_null(values);
    op_fixture_random_fill(scene->fixture, values, rows * columns);
    struct weight weight = op_fixture_plain(scene->fixture, DTYPE_F32, rows, columns, values);
    free(values);
    return weight;
}

static void fill_randomly(struct scene *scene, const struct state_rows *state) {
    int64_t count = state->slot_count * state->rows_per_slot * state->layout.width;
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    op_fixture_random_fill(scene->fixture, values, count);
    op_fixture_state_fill(scene->fixture, state, values);
    free(values);
}

/* A random ring, and random entries, with a slot for each row. */
static struct state_rows random_ring(struct scene *scene, struct row_layout layout, int64_t rows) {
    struct state_rows ring = op_fixture_ring(scene->fixture, layout, rows, ROWS);
    fill_randomly(scene, &ring);
    return ring;
}

static struct state_rows random_entries(struct scene *scene, struct row_layout layout) {
    struct state_rows entries = op_fixture_entries(scene->fixture, layout, ENTRIES, ROWS);
    fill_randomly(scene, &entries);
    return entries;
}

/* The inputs of the listed rows as one tensor (count, shape...) with `length` elements a row. */
static struct tensor inputs_of(struct scene *scene, enum dtype dtype, const int *order, int count,
                               int64_t length) {
    float *values = malloc((size_t)(count * length) * sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < count; i++) {
        memcpy(values + i * length, scene->inputs[order[i]], (size_t)length * sizeof *values);
    }
    struct tensor tensor = OP_TENSOR(scene->fixture, dtype, values, count, length);
    free(values);
    return tensor;
}

/* (count, a * b) seen as (count, a, b). */
static struct tensor split(struct tensor tensor, int64_t middle) {
    tensor.rank = 3;
    tensor.shape[2] = tensor.shape[1] / middle;
    tensor.shape[1] = middle;
    return tensor;
}

/* A batch of one row per segment: the listed rows at their positions. */
static struct batch_view batch_of(struct scene *scene, const int *order, int count) {
    struct op_segment segments[ROWS] = {{0}};
    for (int i = 0; i < count; i++) {
        segments[i] = (struct op_segment){order[i], scene->positions[order[i]], 1};
    }
    return op_fixture_batch(scene->fixture, segments, count, NULL);
}

/* Spreads a result tensor over the rows of `out` from byte `offset` of each. */
static void take(struct scene *scene, struct tensor tensor, size_t offset, unsigned char *out) {
    size_t row_bytes = (size_t)tensor_row_elements(&tensor) * dtype_bytes(tensor.dtype);
    unsigned char *bytes = malloc(tensor_bytes(&tensor));
    assert_non_null(bytes);
    assert_true(offset + row_bytes <= RESULT_BYTES);
    op_fixture_download(scene->fixture, tensor.data, bytes, tensor_bytes(&tensor));
    for (int64_t i = 0; i < tensor.shape[0]; i++) {
        memcpy(out + i * RESULT_BYTES + offset, bytes + (size_t)i * row_bytes, row_bytes);
    }
    free(bytes);
}

static void run_linear(struct scene *scene, const int *order, int count, unsigned char *out) {
    for (int n = 0; n < 3; n++) {
        struct linear_args args = {
            .out = OP_TENSOR(scene->fixture, DTYPE_F32, NULL, count, scene->weights[n].rows),
            .x = inputs_of(scene, scene->dtype, order, count, scene->weights[n].columns),
            .weight = &scene->weights[n],
        };
        OP_RUN(scene->fixture, scene->numerics, linear, &args);
        take(scene, args.out, (size_t)n * 1024, out);
    }
}

static void run_grouped_linear(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct grouped_linear_args args = {
        .out = OP_TENSOR(scene->fixture, scene->dtype, NULL, count, 2, 67),
        .x = split(inputs_of(scene, scene->dtype, order, count, 320), 2),
        .weight = &scene->weights[0],
    };
    OP_RUN(scene->fixture, scene->numerics, grouped_linear, &args);
    take(scene, args.out, 0, out);
}

static void run_moe_experts(struct scene *scene, const int *order, int count, unsigned char *out) {
    const struct expert_weights bank = {
        .gate = scene->experts[0], .up = scene->experts[1], .down = scene->experts[2], .count = EXPERTS};
    int32_t picked[ROWS][PICKS];
    for (int i = 0; i < count; i++) {
        picked[i][0] = order[i] % EXPERTS;
        picked[i][1] = (order[i] / 2 + 1) % EXPERTS;
    }
    struct moe_experts_args args = {
        .out = OP_TENSOR(scene->fixture, scene->dtype, NULL, count, PICKS, WIDTH),
        .x = inputs_of(scene, scene->dtype, order, count, WIDTH),
        .experts = {.dtype = DTYPE_I32, .rank = 2, .shape = {count, PICKS}},
        .weights = inputs_of(scene, DTYPE_F32, order, count, PICKS),
        .bank = &bank,
        .clamp = 10.0f,
    };
    args.experts.data = op_fixture_upload(scene->fixture, picked, (size_t)count * sizeof picked[0]);
    OP_RUN(scene->fixture, scene->numerics, moe_experts, &args);
    take(scene, args.out, 0, out);
}

static void run_rms_norm(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct rms_norm_args args = {
        .out = OP_TENSOR(scene->fixture, scene->dtype, NULL, count, INPUT),
        .x = inputs_of(scene, scene->dtype, order, count, INPUT),
        .weight = &scene->weights[0],
        .epsilon = 1e-6f,
    };
    OP_RUN(scene->fixture, scene->numerics, rms_norm, &args);
    take(scene, args.out, 0, out);
}

static void run_hyper_connection_pre(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct hyper_connection_pre_args args = {
        .out = OP_TENSOR(scene->fixture, scene->dtype, NULL, count, WIDTH),
        .post = OP_TENSOR(scene->fixture, DTYPE_F32, NULL, count, STREAMS),
        .comb = OP_TENSOR(scene->fixture, DTYPE_F32, NULL, count, STREAMS, STREAMS),
        .streams = split(inputs_of(scene, scene->dtype, order, count, INPUT), STREAMS),
        .mix = &scene->weights[0],
        .base = &scene->weights[1],
        .scale = &scene->weights[2],
        .sinkhorn_iterations = 20,
        .gate_epsilon = 1e-6f,
        .norm_epsilon = 1e-6f,
    };
    OP_RUN(scene->fixture, scene->numerics, hyper_connection_pre, &args);
    take(scene, args.out, 0, out);
    take(scene, args.post, 1024, out);
    take(scene, args.comb, 2048, out);
}

static void run_hyper_connection_head(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct hyper_connection_head_args args = {
        .out = OP_TENSOR(scene->fixture, scene->dtype, NULL, count, WIDTH),
        .streams = split(inputs_of(scene, scene->dtype, order, count, INPUT), STREAMS),
        .mix = &scene->weights[0],
        .base = &scene->weights[1],
        .scale = &scene->weights[2],
        .gate_epsilon = 1e-6f,
        .norm_epsilon = 1e-6f,
    };
    OP_RUN(scene->fixture, scene->numerics, hyper_connection_head, &args);
    take(scene, args.out, 0, out);
}

static void run_route_experts(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct route_experts_args args = {
        .experts = {.dtype = DTYPE_I32, .rank = 2, .shape = {count, 6}},
        .weights = OP_TENSOR(scene->fixture, DTYPE_F32, NULL, count, 6),
        .logits = inputs_of(scene, DTYPE_F32, order, count, INPUT),
        .bias = &scene->weights[0],
        .scaling = 1.5f,
    };
    args.experts.data = op_fixture_upload(scene->fixture, NULL, tensor_bytes(&args.experts));
    OP_RUN(scene->fixture, scene->numerics, route_experts, &args);
    take(scene, args.experts, 0, out);
    take(scene, args.weights, 1024, out);
}

static void run_sparse_attention(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct batch_view batch = batch_of(scene, order, count);
    struct tensor keys = inputs_of(scene, DTYPE_F32, order, count, KEY_WIDTH);
    float *host_keys = malloc(tensor_bytes(&keys));
    assert_non_null(host_keys);
    op_fixture_read(scene->fixture, keys, host_keys);
    struct sparse_attention_args args = {
        .out = OP_TENSOR(scene->fixture, scene->dtype, NULL, count, HEADS, KEY_WIDTH),
        .queries = split(inputs_of(scene, scene->dtype, order, count, HEADS * KEY_WIDTH), HEADS),
        .window_rows = {.rows = op_fixture_encoded(scene->fixture, scene->ring.layout, host_keys, count),
                        .ring = scene->ring},
        .entries = scene->entries,
        .sink = &scene->weights[0],
        .batch = &batch,
        .window = WINDOW,
        .ratio = RATIO,
        .scale = 0.125f,
    };
    OP_RUN(scene->fixture, scene->numerics, sparse_attention, &args);
    take(scene, args.out, 0, out);
    int32_t chosen[ROWS][3];
    for (int i = 0; i < count; i++) {
        int32_t visible = (scene->positions[order[i]] + 1) / RATIO;
        for (int k = 0; k < 3; k++) {
            chosen[i][k] = k < visible ? visible - 1 - k : -1;
        }
    }
    args.selection = (struct tensor){.dtype = DTYPE_I32, .rank = 2, .shape = {count, 3}};
    args.selection.data = op_fixture_upload(scene->fixture, chosen, (size_t)count * sizeof chosen[0]);
    OP_RUN(scene->fixture, scene->numerics, sparse_attention, &args);
    take(scene, args.out, 2048, out);
    free(host_keys);
}

static void run_indexer_select(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct batch_view batch = batch_of(scene, order, count);
    struct indexer_select_args args = {
        .selection = {.dtype = DTYPE_I32, .rank = 2, .shape = {count, 4}},
        .queries = split(inputs_of(scene, scene->dtype, order, count, HEADS * KEY_WIDTH), HEADS),
        .head_weights = inputs_of(scene, scene->dtype, order, count, HEADS),
        .keys = scene->entries,
        .batch = &batch,
        .ratio = RATIO,
        .weight_scale = 0.25f,
    };
    args.selection.data = op_fixture_upload(scene->fixture, NULL, tensor_bytes(&args.selection));
    OP_RUN(scene->fixture, scene->numerics, indexer_select, &args);
    take(scene, args.selection, 0, out);
}

/* Rows that end no block write nothing: the entry that they belong to must stay as it was. */
static void run_compress_entries(struct scene *scene, const int *order, int count, unsigned char *out) {
    struct op_fixture *fixture = scene->fixture;
    struct batch_view batch = batch_of(scene, order, count);
    struct rope_table rope;
    rope_table_init(&rope, 8, 10000.0, NULL);
    struct tensor raw = inputs_of(scene, DTYPE_F32, order, count, 4 * KEY_WIDTH);
    struct compress_entries_args args = {
        .raw = {.rows = raw.data, .ring = scene->ring},
        .entries = op_fixture_entries(fixture, scene->entries.layout, ENTRIES, ROWS),
        .batch = &batch,
        .norm = &scene->weights[0],
        .rope = &rope,
        .rounding = scene->dtype,
        .ratio = RATIO,
        .width = KEY_WIDTH,
        .has_overlap = true,
        .epsilon = 1e-6f,
    };
    OP_RUN(fixture, scene->numerics, compress_entries, &args);
    for (int i = 0; i < count; i++) {
        int64_t entry = scene->positions[order[i]] / RATIO;
        op_fixture_download(fixture, op_fixture_state_at(fixture, &args.entries, order[i], entry),
                            out + i * RESULT_BYTES, args.entries.row_bytes);
    }
}

static void expect_independence(struct scene *scene, run_rows run) {
    static unsigned char alone[ROWS][RESULT_BYTES];
    static unsigned char together[ROWS][RESULT_BYTES];
    size_t mark = op_fixture_mark(scene->fixture);
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    int distinct = 0;
    for (int row = 0; row < ROWS; row++) {
        run(scene, &row, 1, alone[row]);
        distinct += memcmp(alone[row], alone[0], RESULT_BYTES) != 0;
        op_fixture_release(scene->fixture, mark);
    }
    assert_true(distinct > ROWS / 2); /* a result that is always the same proves nothing */
    for (int count = 2; count <= ROWS; count++) {
        int order[ROWS];
        for (int i = 0; i < ROWS; i++) {
            order[i] = i;
        }
        for (int i = ROWS - 1; i > 0; i--) {
            int other = (int)((op_fixture_random(scene->fixture) + 1.0f) * 0.5f * (float)(i + 1));
            int swapped = order[i];
            order[i] = order[other];
            order[other] = swapped;
        }
        run(scene, order, count, together[0]);
        for (int i = 0; i < count; i++) {
            assert_memory_equal(together[i], alone[order[i]], RESULT_BYTES);
        }
        op_fixture_release(scene->fixture, mark);
    }
}

static void make_scene(struct scene *scene, struct op_fixture *fixture, int numerics) {
    *scene = (struct scene){.fixture = fixture, .numerics = (enum numerics)numerics};
    scene->dtype = numerics_activation_dtype(scene->numerics);
    op_fixture_random_fill(fixture, scene->inputs[0], ROWS * INPUT);
    for (int row = 0; row < ROWS; row++) {
        scene->positions[row] = row * 7 % 19 * 3; /* 0 to 54 */
    }
}

static void rows_of_linear_maps(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, numerics);
        scene.weights[0] = random_weight(&scene, WEIGHT_PLAIN, 67, 201);
        scene.weights[1] = random_weight(&scene, WEIGHT_FP8, 130, 352);
        scene.weights[2] = random_weight(&scene, WEIGHT_FP4, 67, 352);
        expect_independence(&scene, run_linear);
        scene.weights[0] = random_weight(&scene, WEIGHT_FP8, 2 * 67, 160);
        expect_independence(&scene, run_grouped_linear);
    }
}

/* Spec parallelism E-12. */
static void rows_of_experts(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, numerics);
        for (int e = 0; e < EXPERTS; e++) {
            scene.experts[0][e] = random_weight(&scene, WEIGHT_FP4, 64, WIDTH);
            scene.experts[1][e] = random_weight(&scene, WEIGHT_FP4, 64, WIDTH);
            scene.experts[2][e] = random_weight(&scene, WEIGHT_FP4, WIDTH, 64);
        }
        expect_independence(&scene, run_moe_experts);
        scene.weights[0] = random_floats(&scene, 1, INPUT);
        expect_independence(&scene, run_route_experts);
    }
}

static void rows_of_norms_and_streams(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, numerics);
        scene.weights[0] = random_floats(&scene, 1, INPUT);
        expect_independence(&scene, run_rms_norm);
        scene.weights[0] = random_floats(&scene, (2 + STREAMS) * STREAMS, INPUT);
        scene.weights[1] = random_floats(&scene, 1, (2 + STREAMS) * STREAMS);
        scene.weights[2] = random_floats(&scene, 1, 3);
        expect_independence(&scene, run_hyper_connection_pre);
        scene.weights[0] = random_floats(&scene, STREAMS, INPUT);
        scene.weights[1] = random_floats(&scene, 1, STREAMS);
        scene.weights[2] = random_floats(&scene, 1, 1);
        expect_independence(&scene, run_hyper_connection_head);
    }
}

static void rows_of_attention(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, numerics);
        struct row_layout kv = numerics_row_layout(scene.numerics, ROW_KIND_KV, KEY_WIDTH, 16);
        scene.weights[0] = random_floats(&scene, 1, HEADS);
        scene.ring = random_ring(&scene, kv, WINDOW);
        scene.entries = random_entries(&scene, kv);
        expect_independence(&scene, run_sparse_attention);
    }
}

static void rows_of_the_indexer_and_compressor(void **state) {
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct scene scene;
        make_scene(&scene, *state, numerics);
        scene.entries =
            random_entries(&scene, numerics_row_layout(scene.numerics, ROW_KIND_INDEX, KEY_WIDTH, 0));
        for (int row = 0; row < ROWS; row++) {
            scene.positions[row] = 24 + 2 * row; /* 6 to 14 visible entries */
        }
        expect_independence(&scene, run_indexer_select);
        scene.entries.layout = numerics_row_layout(scene.numerics, ROW_KIND_KV, KEY_WIDTH, 16);
        scene.weights[0] = random_floats(&scene, 1, KEY_WIDTH);
        scene.ring = random_ring(&scene, (struct row_layout){.encoding = ROW_F32, .width = 4 * KEY_WIDTH}, 8);
        for (int row = 0; row < ROWS; row++) {
            scene.positions[row] = row % 5 == 4 ? 2 * row : 4 * (row % 13) + 3;
        }
        expect_independence(&scene, run_compress_entries);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(rows_of_linear_maps),
        OP_TEST(rows_of_experts),
        OP_TEST(rows_of_norms_and_streams),
        OP_TEST(rows_of_attention),
        OP_TEST(rows_of_the_indexer_and_compressor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
