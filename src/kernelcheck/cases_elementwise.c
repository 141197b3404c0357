/*
 * Row by row arithmetic and copies. Shapes: width = channels, outer = heads or copies, inner = rows of a
 * table (rms_norm: of x where rows are taken by index), plain = rotary channels. is_variant: rms_norm has no
 * weight, rope turns back.
 */
#include "kernelcheck/case_families.h"
#include "kernelcheck/case_values.h"

static const struct tolerance exact = {TOLERANCE_EXACT, 0, 0, "copies and single fp32 operations"};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define NORMAL_AND_EXTREME (CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME))

static enum status build_embedding(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct embedding_args *args = &kernel_case->args.embedding;
    int64_t rows = kernel_case->plan.row_count;
    struct weight table;
    /* Some ids outside, on both sides. */
    TRY(case_add_picks(kernel_case, 3, -3, shape->inner + 6, &args->ids));
    TRY(case_add_plain(kernel_case, 1, shape->weight_dtype, shape->inner, shape->width, 1.0f, &table));
    TRY(case_add_result(kernel_case, case_activation(kernel_case), shape->outer, shape->width, &exact,
                        &args->out));
    args->table = case_keep(kernel_case, &table, sizeof table);
    CHECK_MEMORY(args->table);
    kernel_case->used_bytes =
        tensor_bytes(&args->out) + (size_t)(rows * shape->width) * dtype_bytes(shape->weight_dtype);
    return STATUS_OK;
}

static const struct case_shape embedding_shapes[] = {
    {.width = 1, .outer = 1, .inner = 1, .weight_dtype = DTYPE_BF16},
    {.width = 37, .outer = 3, .inner = 11, .weight_dtype = DTYPE_BF16},
    {.width = 256, .outer = 4, .inner = 100, .weight_dtype = DTYPE_F32},
};

static const struct case_shape embedding_bench_shapes[] = {
    {.label = "", .width = 2048, .outer = 4, .inner = 32768, .weight_dtype = DTYPE_BF16}};

const struct case_family case_family_embedding = {
    .build = build_embedding,
    .shapes = embedding_shapes,
    .shape_count = COUNT(embedding_shapes),
    .styles = NORMAL_AND_EXTREME,
    .bench_shapes = embedding_bench_shapes,
    .bench_shape_count = COUNT(embedding_bench_shapes),
};

static const struct tolerance norm_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_ULP, 8, 0, "an fp32 sum of squares under a root, two products"},
    {TOLERANCE_ULP, 1, 0, "the fp32 error flips the rounding to bf16 of a few elements"},
};

static enum status build_rms_norm(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    const struct tolerance *tolerance = &norm_tolerances[kernel_case->numerics];
    enum dtype type = case_activation(kernel_case);
    struct rms_norm_args *args = &kernel_case->args.rms_norm;
    struct case_tensor x;
    struct weight weight;
    if (shape->inner > 0) {
        TRY(case_add_source(kernel_case, 1, type, CASE_ROWS_DIFFER, shape->inner, shape->outer, shape->width,
                            &x.tensor));
        TRY(case_add_picks(kernel_case, 3, 0, shape->inner, &args->rows));
    } else {
        TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, shape->outer, shape->width, &x));
    }
    if (!shape->is_variant) {
        TRY(case_add_plain(kernel_case, 2, shape->weight_dtype, 1, shape->width, 1.0f, &weight));
        args->weight = case_keep(kernel_case, &weight, sizeof weight);
        CHECK_MEMORY(args->weight);
    }
    args->x = x.tensor;
    args->out = x.tensor;
    args->epsilon = 1e-6f;
    if (shape->is_in_place) {
        TRY(case_mark_result(kernel_case, &x, tolerance));
    } else {
        TRY(case_add_result(kernel_case, type, shape->outer, shape->width, tolerance, &args->out));
    }
    return STATUS_OK;
}

static const struct case_shape rms_norm_shapes[] = {
    {.width = 1, .weight_dtype = DTYPE_F32},
    {.width = 15, .weight_dtype = DTYPE_BF16},
    {.width = 256, .weight_dtype = DTYPE_BF16, .is_in_place = true},
    {.width = 515, .weight_dtype = DTYPE_F32},
    {.width = 64, .outer = 5, .is_variant = true, .is_in_place = true},
    {.width = 33, .outer = 2, .weight_dtype = DTYPE_F32},
    {.width = 77, .inner = 1, .weight_dtype = DTYPE_F32},
    {.width = 40, .inner = 9, .is_variant = true},
    {.width = 256, .outer = 4, .inner = 23, .weight_dtype = DTYPE_BF16},
};

static const struct case_shape rms_norm_bench_shapes[] = {
    {.label = "hidden", .width = 2048, .weight_dtype = DTYPE_BF16},
    {.label = "queries", .width = 512, .outer = 32, .is_variant = true, .is_in_place = true},
};

const struct case_family case_family_rms_norm = {
    .build = build_rms_norm,
    .shapes = rms_norm_shapes,
    .shape_count = COUNT(rms_norm_shapes),
    .styles = NORMAL_AND_EXTREME | CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = rms_norm_bench_shapes,
    .bench_shape_count = COUNT(rms_norm_bench_shapes),
};

static const struct tolerance rope_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_ULP, 4, 0.25, "two products that can cancel, sine and cosine in fp32"},
    {TOLERANCE_ULP, 1, 0.25, "the fp32 error flips the rounding to bf16 of a few elements"},
};

static enum status build_rope(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    const struct rope_scaling scaling = {16, 65536, 32, 1};
    struct rope_args *args = &kernel_case->args.rope;
    struct case_tensor x;
    struct rope_table table;
    TRY(case_add_rows(kernel_case, 1, case_activation(kernel_case), CASE_SAME_SIZE, shape->outer,
                      shape->width, &x));
    TRY(case_mark_result(kernel_case, &x, &rope_tolerances[kernel_case->numerics]));
    rope_table_init(&table, (int)shape->plain / 2, shape->is_variant ? 160000 : 10000,
                    shape->is_variant ? &scaling : NULL);
    args->x = x.tensor;
    args->positions = kernel_case->batch.positions;
    args->is_inverse = shape->is_variant;
    args->table = case_keep(kernel_case, &table, sizeof table);
    CHECK_MEMORY(args->table);
    return STATUS_OK;
}

static const struct case_shape rope_shapes[] = {
    {.width = 2, .outer = 1, .plain = 2},
    {.width = 64, .outer = 3, .plain = 64},
    {.width = 77, .outer = 2, .plain = 38, .is_variant = true},
    {.width = 512, .outer = 5, .plain = 64, .is_variant = true},
};

static const struct case_shape rope_bench_shapes[] = {
    {.label = "queries", .width = 512, .outer = 32, .plain = 64},
    {.label = "key", .width = 512, .outer = 1, .plain = 64},
};

const struct case_family case_family_rope = {
    .build = build_rope,
    .shapes = rope_shapes,
    .shape_count = COUNT(rope_shapes),
    .styles = NORMAL_AND_EXTREME,
    .bench_shapes = rope_bench_shapes,
    .bench_shape_count = COUNT(rope_bench_shapes),
};

static const struct tolerance swiglu_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_ULP, 8, 0, "an fp32 exponential and quotient"},
    {TOLERANCE_ULP, 1, 0, "the fp32 error flips the rounding to bf16 of a few elements"},
};

static enum status build_swiglu(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    const struct tolerance *tolerance = &swiglu_tolerances[kernel_case->numerics];
    enum dtype type = case_activation(kernel_case);
    struct swiglu_args *args = &kernel_case->args.swiglu;
    struct case_tensor gate;
    struct case_tensor up;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, 0, shape->width, &gate));
    TRY(case_add_rows(kernel_case, 2, type, CASE_ROWS_DIFFER, 0, shape->width, &up));
    args->gate = gate.tensor;
    args->up = up.tensor;
    args->out = gate.tensor;
    args->clamp = 10.0f;
    if (shape->is_in_place) {
        TRY(case_mark_result(kernel_case, &gate, tolerance));
    } else {
        TRY(case_add_result(kernel_case, type, 0, shape->width, tolerance, &args->out));
    }
    return STATUS_OK;
}

static const struct case_shape swiglu_shapes[] = {
    {.width = 1}, {.width = 50}, {.width = 512, .is_in_place = true}, {.width = 333, .is_in_place = true}};

static const struct case_shape swiglu_bench_shapes[] = {{.label = "shared", .width = 1024}};

const struct case_family case_family_swiglu = {
    .build = build_swiglu,
    .shapes = swiglu_shapes,
    .shape_count = COUNT(swiglu_shapes),
    .styles = NORMAL_AND_EXTREME | CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = swiglu_bench_shapes,
    .bench_shape_count = COUNT(swiglu_bench_shapes),
};

static enum status build_add_broadcast(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    struct add_broadcast_args *args = &kernel_case->args.add_broadcast;
    struct case_tensor a;
    struct case_tensor b;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, 0, shape->width, &a));
    TRY(case_add_rows(kernel_case, 2, type, CASE_ROWS_DIFFER, shape->outer, shape->width, &b));
    args->a = a.tensor;
    args->b = b.tensor;
    args->out = b.tensor;
    if (shape->is_in_place) {
        TRY(case_mark_result(kernel_case, &b, &exact));
    } else {
        TRY(case_add_result(kernel_case, type, shape->outer, shape->width, &exact, &args->out));
    }
    return STATUS_OK;
}

static const struct case_shape add_broadcast_shapes[] = {
    {.width = 1, .outer = 1}, {.width = 77, .outer = 3}, {.width = 256, .outer = 4, .is_in_place = true}};

static const struct case_shape add_broadcast_bench_shapes[] = {{.label = "", .width = 2048, .outer = 4}};

const struct case_family case_family_add_broadcast = {
    .build = build_add_broadcast,
    .shapes = add_broadcast_shapes,
    .shape_count = COUNT(add_broadcast_shapes),
    .styles = NORMAL_AND_EXTREME,
    .bench_shapes = add_broadcast_bench_shapes,
    .bench_shape_count = COUNT(add_broadcast_bench_shapes),
};

static enum status build_round(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct round_args *args = &kernel_case->args.round;
    struct case_tensor x;
    TRY(case_add_rows(kernel_case, 1, DTYPE_F32, CASE_ROWS_DIFFER, 0, shape->width, &x));
    args->x = x.tensor;
    return case_add_result(kernel_case, case_activation(kernel_case), 0, shape->width, &exact, &args->out);
}
static const struct case_shape round_shapes[] = {{.width = 1}, {.width = 77}, {.width = 256}};

static const struct case_shape round_bench_shapes[] = {{.label = "", .width = 4096}};

const struct case_family case_family_round = {
    .build = build_round,
    .shapes = round_shapes,
    .shape_count = COUNT(round_shapes),
    .styles = NORMAL_AND_EXTREME,
    .bench_shapes = round_bench_shapes,
    .bench_shape_count = COUNT(round_bench_shapes),
};
