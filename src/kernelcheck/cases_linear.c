/*
 * Linear maps. Shapes: width = columns, inner = rows of the weight, outer = groups. linear: is_f32 takes F32
 * inputs, is_variant writes F32 outputs also in native numerics, leaves are those of the weight.
 */
#include "kernelcheck/case_families.h"
#include "kernelcheck/case_values.h"

static const char SUM_REASON[] = "fp32 sums against double: a few units of 2^-24 a term";
static const char BF16_REASON[] = "the sum's error flips the rounding to bf16 of a few elements";

static const struct tolerance f32_sum = {TOLERANCE_NMSE, 1e-11, 1e-9, SUM_REASON};
static const struct tolerance bf16_sum = {TOLERANCE_NMSE, 1e-6, 1e-4, BF16_REASON};

static const struct tolerance *sum_tolerance(enum dtype dtype) {
    return dtype == DTYPE_F32 ? &f32_sum : &bf16_sum;
}

static enum status build_linear(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct case_tensor x;
    struct weight weight;
    enum dtype x_type = shape->is_f32 ? DTYPE_F32 : case_activation(kernel_case);
    enum dtype out_type = shape->is_variant ? DTYPE_F32 : case_activation(kernel_case);
    struct linear_args *args = &kernel_case->args.linear;
    TRY(case_add_rows(kernel_case, 1, x_type, CASE_ROWS_DIFFER, 0, shape->width, &x));
    TRY(case_add_weight(kernel_case, 2, shape->inner, shape->width, &weight));
    weight.leaves = leaves_whole(shape->width, shape->leaves);
    TRY(case_add_result(kernel_case, out_type, 0, shape->inner, sum_tolerance(out_type), &args->out));
    args->x = x.tensor;
    args->weight = case_keep(kernel_case, &weight, sizeof weight);
    CHECK_MEMORY(args->weight);
    kernel_case->operation_count =
        2.0 * (double)kernel_case->plan.row_count * (double)shape->width * (double)shape->inner;
    return STATUS_OK;
}

#define PLAIN_F32 .format = WEIGHT_PLAIN, .weight_dtype = DTYPE_F32
#define PLAIN_BF16 .format = WEIGHT_PLAIN, .weight_dtype = DTYPE_BF16
#define FP8 .format = WEIGHT_FP8, .scale_dtype = DTYPE_F8_E8M0
#define FP8_F32_SCALES .format = WEIGHT_FP8, .scale_dtype = DTYPE_F32
#define FP4 .format = WEIGHT_FP4, .scale_dtype = DTYPE_F8_E8M0
#define FP4_F32_SCALES .format = WEIGHT_FP4, .scale_dtype = DTYPE_F32

static const struct case_shape linear_shapes[] = {
    {.width = 1, .inner = 1, PLAIN_F32},
    {.width = 33, .inner = 17, PLAIN_F32},
    {.width = 300, .inner = 70, PLAIN_F32, .is_f32 = true, .is_variant = true},
    {.width = 7, .inner = 5, PLAIN_BF16},
    {.width = 515, .inner = 131, PLAIN_BF16},
    {.width = 256, .inner = 64, PLAIN_BF16, .is_variant = true},
    {.width = 99, .inner = 31, PLAIN_BF16, .is_f32 = true, .is_variant = true},
    {.width = 128, .inner = 128, FP8},
    {.width = 300, .inner = 145, FP8, .is_variant = true},
    {.width = 21, .inner = 3, FP8},
    {.width = 1030, .inner = 67, FP8_F32_SCALES, .is_variant = true},
    {.width = 257, .inner = 258, FP8, .is_f32 = true},
    {.width = 32, .inner = 5, FP4},
    {.width = 160, .inner = 67, FP4, .is_variant = true},
    {.width = 1056, .inner = 130, FP4},
    {.width = 224, .inner = 33, FP4_F32_SCALES, .is_variant = true},
    {.width = 512, .inner = 20, PLAIN_F32, .leaves = 4},
    {.width = 2200, .inner = 35, PLAIN_BF16, .leaves = 16, .is_variant = true},
    {.width = 384, .inner = 66, FP8, .leaves = 16, .is_variant = true},
    {.width = 2176, .inner = 33, FP8, .leaves = 16},
    {.width = 700, .inner = 18, FP8_F32_SCALES, .leaves = 3},
    {.width = 2048, .inner = 49, FP4, .leaves = 16, .is_variant = true},
    {.width = 1568, .inner = 40, FP4, .leaves = 7},
    {.width = 1100, .inner = 37, FP8, .is_variant = true},
    {.width = 2144, .inner = 21, FP4, .leaves = 2},
    {.width = 2300, .inner = 35, FP8},
    {.width = 4160, .inner = 18, FP4, .leaves = 1},
    {.width = 2210, .inner = 20, PLAIN_BF16, .is_variant = true},
};

/* bench-m. */
static const struct case_shape linear_bench_shapes[] = {
    {.label = "q_a", .width = 2048, .inner = 1024, FP8},
    {.label = "q_b", .width = 1024, .inner = 16384, FP8},
    {.label = "o_b", .width = 4096, .inner = 2048, FP8, .leaves = 4},
    {.label = "shared_down", .width = 1024, .inner = 2048, FP8, .leaves = 16},
    {.label = "router", .width = 2048, .inner = 64, PLAIN_BF16, .is_variant = true},
    {.label = "compressor", .width = 2048, .inner = 1024, PLAIN_BF16, .is_variant = true},
    {.label = "compressor_f32", .width = 2048, .inner = 1024, PLAIN_F32, .is_f32 = true, .is_variant = true},
    {.label = "expert_fp4", .width = 2048, .inner = 1024, FP4},
    {.label = "head", .width = 2048, .inner = 32768, PLAIN_BF16, .is_variant = true},
};

const struct case_family case_family_linear = {
    .build = build_linear,
    .shapes = linear_shapes,
    .shape_count = sizeof linear_shapes / sizeof linear_shapes[0],
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) |
              CASE_STYLE_BIT(CASE_ZERO) | CASE_STYLE_BIT(CASE_LARGE),
    .is_exact_by_value = true,
    .bench_shapes = linear_bench_shapes,
    .bench_shape_count = sizeof linear_bench_shapes / sizeof linear_bench_shapes[0],
};

static enum status build_grouped_linear(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct case_tensor x;
    struct weight weight;
    enum dtype type = case_activation(kernel_case);
    struct grouped_linear_args *args = &kernel_case->args.grouped_linear;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, shape->outer, shape->width, &x));
    TRY(case_add_weight(kernel_case, 2, shape->outer * shape->inner, shape->width, &weight));
    TRY(case_add_result(kernel_case, type, shape->outer, shape->inner, sum_tolerance(type), &args->out));
    args->x = x.tensor;
    args->weight = case_keep(kernel_case, &weight, sizeof weight);
    CHECK_MEMORY(args->weight);
    kernel_case->operation_count = 2.0 * (double)kernel_case->plan.row_count * (double)shape->width *
                                   (double)(shape->inner * shape->outer);
    return STATUS_OK;
}

static const struct case_shape grouped_linear_shapes[] = {
    {.width = 19, .outer = 1, .inner = 3, PLAIN_F32},
    {.width = 64, .outer = 4, .inner = 16, PLAIN_BF16},
    {.width = 101, .outer = 3, .inner = 37, PLAIN_BF16},
    {.width = 128, .outer = 2, .inner = 64, FP8},
    {.width = 300, .outer = 3, .inner = 50, FP8},
    {.width = 129, .outer = 2, .inner = 9, FP8_F32_SCALES},
    {.width = 96, .outer = 3, .inner = 21, FP4},
};

static const struct case_shape grouped_linear_bench_shapes[] = {
    {.label = "o_a", .width = 4096, .outer = 4, .inner = 1024, FP8},
    {.label = "o_a_bf16", .width = 4096, .outer = 4, .inner = 1024, PLAIN_BF16},
};

const struct case_family case_family_grouped_linear = {
    .build = build_grouped_linear,
    .shapes = grouped_linear_shapes,
    .shape_count = sizeof grouped_linear_shapes / sizeof grouped_linear_shapes[0],
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) |
              CASE_STYLE_BIT(CASE_ZERO) | CASE_STYLE_BIT(CASE_LARGE),
    .is_exact_by_value = true,
    .bench_shapes = grouped_linear_bench_shapes,
    .bench_shape_count = sizeof grouped_linear_bench_shapes / sizeof grouped_linear_bench_shapes[0],
};
