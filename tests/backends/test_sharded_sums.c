/*
 * Every kernel of linear and moe_experts: a matrix whose columns are cut between ranks gives, added up by the
 * adjacent tree, the bits that the whole matrix gives (spec parallelism 6.1, L1).
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
#include "ops/linear.h"
#include "ops/moe_experts.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"

enum { RANKS_MAX = 16, BLOCK = 128, OUTPUTS = 37, ROWS_MAX = 37, COLUMNS_MAX = 3072, OUT_MAX = 5000 };

/* A matrix in host memory, as files store it. */
struct matrix {
    enum weight_format format;
    enum dtype dtype; /* of PLAIN */
    int64_t rows;
    int64_t columns;
    unsigned char *codes;
    unsigned char *scales;
};

/* Bytes of `count` elements of a row; even counts for FP4. */
static size_t code_bytes(const struct matrix *matrix, int64_t count) {
    if (matrix->format == WEIGHT_PLAIN) {
        return (size_t)count * dtype_bytes(matrix->dtype);
    }
    return (size_t)(matrix->format == WEIGHT_FP8 ? count : count / 2);
}

/* Scale bytes beside `count` columns from a block's first. */
static size_t scale_bytes(const struct matrix *matrix, int64_t count) {
    if (matrix->format == WEIGHT_PLAIN) {
        return 0;
    }
    int64_t unit = matrix->format == WEIGHT_FP8 ? BLOCK : 32;
    return (size_t)((count + unit - 1) / unit);
}

/* Rows of scales for so many rows of codes. */
static size_t scale_rows(const struct matrix *matrix, int64_t rows) {
    return (size_t)(matrix->format == WEIGHT_FP8 ? (rows + BLOCK - 1) / BLOCK : rows);
}

static unsigned random_byte(struct op_fixture *fixture) {
    return (unsigned)((op_fixture_random(fixture) + 1.0f) * 128.0f);
}

static struct matrix random_matrix(struct op_fixture *fixture, enum weight_format format, enum dtype dtype,
                                   int64_t rows, int64_t columns) {
    struct matrix matrix = {.format = format, .dtype = dtype, .rows = rows, .columns = columns};
    size_t bytes = (size_t)rows * code_bytes(&matrix, columns);
    size_t scales = scale_rows(&matrix, rows) * scale_bytes(&matrix, columns);
    matrix.codes = malloc(bytes);
    matrix.scales = malloc(scales + 1);
    assert_non_null(matrix.codes);
    assert_non_null(matrix.scales);
    for (size_t i = 0; i < bytes && format != WEIGHT_PLAIN; i++) {
        matrix.codes[i] = (unsigned char)(random_byte(fixture) & 0xFE); /* no NaN of e4m3 */
    }
    for (int64_t i = 0; i < rows * columns && format == WEIGHT_PLAIN; i++) {
        float value = op_fixture_random(fixture);
        uint16_t half = bf16_encode(value);
        memcpy(matrix.codes + (size_t)i * dtype_bytes(dtype),
               dtype == DTYPE_F32 ? (const void *)&value : (const void *)&half, dtype_bytes(dtype));
    }
    for (size_t i = 0; i < scales; i++) {
        matrix.scales[i] = (unsigned char)(117 + random_byte(fixture) % 5);
    }
    return matrix;
}

static void free_matrix(struct matrix *matrix) {
    free(matrix->codes);
    free(matrix->scales);
}

/* A part of the matrix: rows and columns from multiples of a block. */
struct part {
    int64_t first_row;
    int64_t row_count;
    int64_t first_column;
    int64_t column_count;
};

/* Uploads `row_count` pieces of `bytes`, `stride` apart. */
static void *upload_pieces(struct op_fixture *fixture, const unsigned char *from, size_t stride,
                           size_t row_count, size_t bytes) {
    unsigned char *pieces = malloc(row_count * bytes + 1);
    assert_non_null(pieces);
    for (size_t row = 0; row < row_count; row++) {
        memcpy(pieces + row * bytes, from + row * stride, bytes);
    }
    void *uploaded = op_fixture_upload_odd(fixture, pieces, row_count * bytes);
    free(pieces);
    return uploaded;
}

static struct weight upload_part(struct op_fixture *fixture, const struct matrix *matrix,
                                 const struct part *part, struct leaves leaves) {
    struct weight weight = {.name = "part",
                            .format = matrix->format,
                            .dtype = matrix->dtype,
                            .scale_dtype = DTYPE_F8_E8M0,
                            .rows = part->row_count,
                            .columns = part->column_count,
                            .leaves = leaves};
    size_t stride = code_bytes(matrix, matrix->columns);
    size_t scale_stride = scale_bytes(matrix, matrix->columns);
    weight.data = upload_pieces(
        fixture, matrix->codes + (size_t)part->first_row * stride + code_bytes(matrix, part->first_column),
        stride, (size_t)part->row_count, code_bytes(matrix, part->column_count));
    if (matrix->format != WEIGHT_PLAIN) {
        const unsigned char *scales = matrix->scales + scale_rows(matrix, part->first_row) * scale_stride;
        weight.scales =
            upload_pieces(fixture, scales + scale_bytes(matrix, part->first_column), scale_stride,
                          scale_rows(matrix, part->row_count), scale_bytes(matrix, part->column_count));
    }
    return weight;
}

/* First column of rank `rank` of `rank_count` (spec parallelism G-9, UNEVEN). */
static int64_t first_column(int64_t columns, int rank, int rank_count) {
    int64_t blocks = (columns + BLOCK - 1) / BLOCK;
    int64_t column = rank * blocks / rank_count * BLOCK;
    return column < columns ? column : columns;
}

/* ((0 + 1) + (2 + 3)) + ... of `rank_count` partial results into the first; a power of two. */
static void add_ranks(float *partial, int64_t count, int rank_count) {
    for (int distance = 1; distance < rank_count; distance *= 2) {
        for (int rank = 0; rank < rank_count; rank += 2 * distance) {
            for (int64_t i = 0; i < count; i++) {
                partial[rank * count + i] += partial[(rank + distance) * count + i];
            }
        }
    }
}

struct shape {
    enum weight_format format;
    enum dtype dtype;
    int64_t columns;
    int leaf_count;
};

static const struct shape shapes[] = {
    {WEIGHT_FP8, DTYPE_COUNT, 2048, 16}, /* a block a leaf */
    {WEIGHT_FP8, DTYPE_COUNT, 3072, 16}, /* 24 blocks: one or two */
    {WEIGHT_FP8, DTYPE_COUNT, 2200, 16}, /* 18, the last one short */
    {WEIGHT_FP8, DTYPE_COUNT, 1024, 4},  /* groups of two blocks */
    {WEIGHT_FP8, DTYPE_COUNT, 640, 16},  /* five blocks: most leaves are empty */
    {WEIGHT_FP8, DTYPE_COUNT, 128, 16},  /* one */
    {WEIGHT_FP8, DTYPE_COUNT, 60, 16},   /* less than one */
    {WEIGHT_FP4, DTYPE_COUNT, 2048, 16},  {WEIGHT_FP4, DTYPE_COUNT, 1568, 16},
    {WEIGHT_PLAIN, DTYPE_BF16, 2213, 16}, {WEIGHT_PLAIN, DTYPE_F32, 700, 2},
};

enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };

struct scene {
    struct op_fixture *fixture;
    enum numerics numerics;
    const struct op_entry *entry;
    const struct shape *shape;
    int64_t rows;
};

/* Calls check for every kernel of the operation on this processor, for all shapes, modes and row counts. */
static void for_each_scene(struct op_fixture *fixture, enum op_id op, void (*check)(struct scene *scene)) {
    static const int64_t row_counts[] = {1, 3, ROWS_MAX}; /* weights in registers, and in a panel */
    const struct op_entry *entries[CPU_KERNELS_MAX];
    size_t entry_count = cpu_kernels_collect(entries);
    int able_count = 0;
    for (size_t e = 0; e < entry_count; e++) {
        if (entries[e]->op != op || (entries[e]->features & ~cpu_features_detect()) != 0) {
            continue;
        }
        able_count++;
        for (int n = 0; n < NUMERICS_COUNT * SHAPE_COUNT * 3; n++) {
            struct scene scene = {fixture, (enum numerics)(n % NUMERICS_COUNT), entries[e],
                                  &shapes[n / NUMERICS_COUNT % SHAPE_COUNT],
                                  row_counts[n / NUMERICS_COUNT / SHAPE_COUNT]};
            size_t mark = op_fixture_mark(fixture);
            if ((entries[e]->modes & 1u << (unsigned)scene.numerics) != 0) {
                check(&scene);
            }
            op_fixture_release(fixture, mark);
        }
    }
    assert_true(able_count >= 2);
}

/* Sets the table up for the scene's kernel; false if it does not take such arguments. */
static bool choose_entry(const struct scene *scene, const void *args) {
    if (scene->entry->can_run != NULL && !scene->entry->can_run(args)) {
        return false;
    }
    op_table_build(&scene->fixture->table, &scene->entry, 1, 1u << (unsigned)scene->numerics, ~0u);
    return true;
}

static void expect_same_bits(const struct scene *scene, int rank_count, const float *parts,
                             const float *whole, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&parts[i], &whole[i], sizeof *parts) != 0) {
            fail_msg("%s: %d columns in %d leaves on %d ranks, %d rows: element %d is %.9g, whole %.9g",
                     scene->entry->name, (int)scene->shape->columns, scene->shape->leaf_count, rank_count,
                     (int)scene->rows, (int)i, (double)parts[i], (double)whole[i]);
        }
    }
}

/* Columns of x: (rows, columns) to (rows, part->column_count). */
static void take_columns(const float *x, int64_t rows, int64_t columns, const struct part *part, float *out) {
    for (int64_t row = 0; row < rows; row++) {
        memcpy(out + row * part->column_count, x + row * columns + part->first_column,
               (size_t)part->column_count * sizeof *x);
    }
}

/* false if the kernel does not take the arguments. */
static bool run_linear(const struct scene *scene, const struct matrix *matrix, const struct part *part,
                       struct leaves leaves, const float *x, enum dtype out_type, float *out) {
    static float own_columns[ROWS_MAX * COLUMNS_MAX];
    struct op_fixture *fixture = scene->fixture;
    enum dtype dtype = numerics_activation_dtype(scene->numerics);
    struct weight weight = upload_part(fixture, matrix, part, leaves);
    take_columns(x, scene->rows, matrix->columns, part, own_columns);
    struct linear_args args = {.out = OP_TENSOR(fixture, out_type, NULL, scene->rows, part->row_count),
                               .x = OP_TENSOR(fixture, dtype, own_columns, scene->rows, part->column_count),
                               .weight = &weight};
    struct op_queue *queue = op_fixture_plan(fixture, scene->numerics);
    if (!choose_entry(scene, &args)) {
        return false;
    }
    op_fixture_expect_ok(op_linear(queue, &args));
    op_fixture_expect_ok(op_linear(op_fixture_prepare(fixture), &args));
    op_fixture_finish(fixture);
    op_fixture_read(fixture, args.out, out);
    return true;
}

static float x[ROWS_MAX * COLUMNS_MAX];
static float whole[OUT_MAX];
static float rounded[OUT_MAX];
static float partial[RANKS_MAX * OUT_MAX];

static void expect_linear_sharded(struct scene *scene) {
    const struct shape *shape = scene->shape;
    struct matrix matrix =
        random_matrix(scene->fixture, shape->format, shape->dtype, OUTPUTS, shape->columns);
    const struct part all = {0, OUTPUTS, 0, shape->columns};
    const struct leaves leaves = leaves_whole(shape->columns, shape->leaf_count);
    int64_t count = scene->rows * OUTPUTS;
    op_fixture_random_fill(scene->fixture, x, scene->rows * shape->columns);
    bool can_run = run_linear(scene, &matrix, &all, leaves, x, DTYPE_F32, whole);
    for (int ranks = 2; can_run && ranks <= shape->leaf_count; ranks *= 2) {
        memset(partial, 0, sizeof partial);
        for (int rank = 0; rank < ranks; rank++) {
            int64_t first = first_column(shape->columns, rank, ranks);
            struct part part = {0, OUTPUTS, first, first_column(shape->columns, rank + 1, ranks) - first};
            run_linear(scene, &matrix, &part, leaves_part(&leaves, rank, ranks), x, DTYPE_F32,
                       partial + rank * count);
        }
        add_ranks(partial, count, ranks);
        expect_same_bits(scene, ranks, partial, whole, count);
    }
    if (can_run && run_linear(scene, &matrix, &all, leaves, x, DTYPE_BF16, rounded)) {
        for (int64_t i = 0; i < count; i++) {
            assert_true(rounded[i] == bf16_round(whole[i]));
        }
    }
    free_matrix(&matrix);
}

static void linear_maps_are_sums_of_their_parts(void **state) {
    for_each_scene(*state, OP_LINEAR, expect_linear_sharded);
}

/* A product too small for fp32 rounds to -0.0, which an empty leaf beside it would turn into +0.0. */
static void expect_no_minus_zero(struct scene *scene) {
    struct matrix matrix = random_matrix(scene->fixture, WEIGHT_PLAIN, DTYPE_BF16, OUTPUTS, BLOCK);
    const struct part all = {0, OUTPUTS, 0, BLOCK};
    const uint16_t tiny = bf16_encode(-0x1p-100f);
    for (size_t i = 0; i < (size_t)OUTPUTS * BLOCK; i++) {
        memcpy(matrix.codes + i * sizeof tiny, &tiny, sizeof tiny);
    }
    for (int64_t i = 0; i < scene->rows * BLOCK; i++) {
        x[i] = 0x1p-100f;
    }
    memset(partial, 0, sizeof partial);
    if (run_linear(scene, &matrix, &all, leaves_whole(BLOCK, 16), x, DTYPE_F32, whole)) {
        expect_same_bits(scene, 1, whole, partial, scene->rows * OUTPUTS);
    }
    free_matrix(&matrix);
}

static void sums_are_never_minus_zero(void **state) {
    for_each_scene(*state, OP_LINEAR, expect_no_minus_zero);
}

enum { EXPERTS = 2, PICKS = 2, WIDTH = OUTPUTS, WIDTH_FP4 = 64 };

struct experts {
    struct matrix gate[EXPERTS];
    struct matrix up[EXPERTS];
    struct matrix down[EXPERTS];
    int64_t width;
};

/* Experts that a rank has something of. */
struct held {
    int first;
    int count;
};

/* The held experts with inner channels first .. end alone. Results of others stay as they are in `out`. */
static bool run_experts(const struct scene *scene, const struct experts *experts, struct held held,
                        int64_t first, int64_t end, struct leaves leaves, float *out) {
    struct op_fixture *fixture = scene->fixture;
    enum dtype dtype = numerics_activation_dtype(scene->numerics);
    const struct part rows = {first, end - first, 0, experts->width};
    const struct part columns = {0, experts->width, first, end - first};
    struct weight gate[EXPERTS];
    struct weight up[EXPERTS];
    struct weight down[EXPERTS];
    int32_t picks[ROWS_MAX * PICKS];
    float weights[ROWS_MAX * PICKS];
    for (int e = 0; e < EXPERTS; e++) {
        gate[e] = upload_part(fixture, &experts->gate[e], &rows, (struct leaves){0});
        up[e] = upload_part(fixture, &experts->up[e], &rows, (struct leaves){0});
        down[e] = upload_part(fixture, &experts->down[e], &columns, leaves);
    }
    for (int i = 0; i < ROWS_MAX * PICKS; i++) {
        picks[i] = (i / PICKS + i) % EXPERTS;
        weights[i] = 0.3f + 0.01f * (float)i;
    }
    const struct expert_weights bank = {.gate = gate + held.first,
                                        .up = up + held.first,
                                        .down = down + held.first,
                                        .count = held.count,
                                        .first = held.first};
    struct moe_experts_args args = {
        .out = OP_TENSOR(fixture, DTYPE_F32, out, scene->rows, PICKS, experts->width),
        .x = OP_TENSOR(fixture, dtype, x, scene->rows, experts->width),
        .weights = OP_TENSOR(fixture, DTYPE_F32, weights, scene->rows, PICKS),
        .bank = &bank,
        .clamp = 10.0f};
    args.experts = args.weights;
    args.experts.dtype = DTYPE_I32;
    args.experts.data = op_fixture_upload(fixture, picks, sizeof picks);
    struct op_queue *queue = op_fixture_plan(fixture, scene->numerics);
    if (!choose_entry(scene, &args)) {
        return false;
    }
    op_fixture_expect_ok(op_moe_experts(queue, &args));
    op_fixture_expect_ok(op_moe_experts(op_fixture_prepare(fixture), &args));
    op_fixture_finish(fixture);
    op_fixture_read(fixture, args.out, out);
    return true;
}

static void expect_experts_sharded(struct scene *scene) {
    const struct shape *shape = scene->shape;
    struct experts experts = {.width = shape->format == WEIGHT_FP4 ? WIDTH_FP4 : WIDTH};
    const struct leaves leaves = leaves_whole(shape->columns, shape->leaf_count);
    int64_t count = scene->rows * PICKS * experts.width;
    assert_true((size_t)count <= sizeof whole / sizeof whole[0]);
    for (int e = 0; e < EXPERTS; e++) {
        struct op_fixture *fixture = scene->fixture;
        experts.gate[e] = random_matrix(fixture, shape->format, shape->dtype, shape->columns, experts.width);
        experts.up[e] = random_matrix(fixture, shape->format, shape->dtype, shape->columns, experts.width);
        experts.down[e] = random_matrix(fixture, shape->format, shape->dtype, experts.width, shape->columns);
    }
    op_fixture_random_fill(scene->fixture, x, scene->rows * experts.width);
    static const struct held all = {0, EXPERTS};
    memset(whole, 0, (size_t)count * sizeof *whole);
    bool can_run = run_experts(scene, &experts, all, 0, shape->columns, leaves, whole);
    for (int ranks = 2; can_run && ranks <= 4 && ranks <= shape->leaf_count; ranks *= 2) {
        memset(partial, 0, sizeof partial);
        for (int rank = 0; rank < ranks; rank++) {
            run_experts(scene, &experts, all, first_column(shape->columns, rank, ranks),
                        first_column(shape->columns, rank + 1, ranks), leaves_part(&leaves, rank, ranks),
                        partial + rank * count);
        }
        add_ranks(partial, count, ranks);
        expect_same_bits(scene, ranks, partial, whole, count);
    }
    /* Whole experts on ranks of their own: each writes its results and no others. */
    memset(partial, 0, (size_t)count * sizeof *partial);
    for (int e = 0; can_run && e < EXPERTS; e++) {
        run_experts(scene, &experts, (struct held){e, 1}, 0, shape->columns, leaves, partial);
    }
    if (can_run) {
        expect_same_bits(scene, EXPERTS, partial, whole, count);
    }
    for (int e = 0; e < EXPERTS; e++) {
        free_matrix(&experts.gate[e]);
        free_matrix(&experts.up[e]);
        free_matrix(&experts.down[e]);
    }
}

static void experts_are_sums_of_their_parts(void **state) {
    for_each_scene(*state, OP_MOE_EXPERTS, expect_experts_sharded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST_IN(linear_maps_are_sums_of_their_parts, "cpu threads"),
        OP_TEST_IN(sums_are_never_minus_zero, "cpu"),
        OP_TEST_IN(experts_are_sums_of_their_parts, "cpu threads"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
