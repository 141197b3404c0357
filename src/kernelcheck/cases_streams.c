/*
 * Residual streams. Shapes: width, outer = streams, limit = Sinkhorn iterations, inner = rows of the streams
 * where the head takes them by index.
 */
#include <math.h>

#include "kernelcheck/case_families.h"
#include "kernelcheck/case_values.h"

static const struct tolerance out_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_NMSE, 1e-11, 1e-9, "fp32 sums and gates against double"},
    {TOLERANCE_NMSE, 1e-6, 1e-4, "the fp32 error flips the rounding to bf16 of a few elements"},
};
static const struct tolerance gate_tolerance = {TOLERANCE_NMSE, 1e-10, 1e-8,
                                                "fp32 sums, an exponential and its normalisation"};
static const struct tolerance post_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_ULP, 16, 0.25, "an fp32 sum of one term a stream, which can cancel"},
    {TOLERANCE_ULP, 1, 0.25, "the fp32 error flips the rounding to bf16 of a few elements"},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define MOST_STYLES                                                                               \
    (CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) | \
     CASE_STYLE_BIT(CASE_ZERO))

struct mix_weights {
    struct weight mix;
    struct weight base;
    struct weight scale;
};

/* Weights of `mixes` gates over all streams, kept in the case. */
static enum status add_mix(struct kernel_case *kernel_case, int64_t mixes, int64_t scales,
                           const struct mix_weights **out) {
    int64_t columns = kernel_case->shape->outer * kernel_case->shape->width;
    struct mix_weights weights;
    float size = 1.0f / sqrtf((float)columns);
    TRY(case_add_plain(kernel_case, 10, DTYPE_F32, mixes, columns, size, &weights.mix));
    TRY(case_add_plain(kernel_case, 11, DTYPE_F32, 1, mixes, 1.0f, &weights.base));
    TRY(case_add_plain(kernel_case, 12, DTYPE_F32, 1, scales, 1.0f, &weights.scale));
    *out = case_keep(kernel_case, &weights, sizeof weights);
    CHECK_MEMORY(*out);
    return STATUS_OK;
}

static enum status build_pre(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    int64_t count = shape->outer;
    struct hyper_connection_pre_args *args = &kernel_case->args.hyper_connection_pre;
    struct case_tensor streams;
    const struct mix_weights *weights;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, count, shape->width, &streams));
    TRY(add_mix(kernel_case, (2 + count) * count, 3, &weights));
    TRY(case_add_result(kernel_case, type, 0, shape->width, &out_tolerances[kernel_case->numerics],
                        &args->out));
    TRY(case_add_result(kernel_case, DTYPE_F32, 0, count, &gate_tolerance, &args->post));
    TRY(case_add_result(kernel_case, DTYPE_F32, count, count, &gate_tolerance, &args->comb));
    args->streams = streams.tensor;
    args->mix = &weights->mix;
    args->base = &weights->base;
    args->scale = &weights->scale;
    args->sinkhorn_iterations = (int)shape->limit;
    args->gate_epsilon = 1e-6f;
    args->norm_epsilon = 1e-6f;
    kernel_case->operation_count = 2.0 * (double)kernel_case->plan.row_count * (double)((3 + count) * count) *
                                   (double)(count * shape->width);
    return STATUS_OK;
}

static const struct case_shape pre_shapes[] = {
    {.width = 16, .outer = 1, .limit = 1},   {.width = 33, .outer = 2, .limit = 3},
    {.width = 256, .outer = 4, .limit = 20}, {.width = 77, .outer = 4, .limit = 20},
    {.width = 45, .outer = 16, .limit = 5},
};

static const struct case_shape pre_bench_shapes[] = {{.label = "", .width = 2048, .outer = 4, .limit = 20}};

const struct case_family case_family_hyper_connection_pre = {
    .build = build_pre,
    .shapes = pre_shapes,
    .shape_count = COUNT(pre_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME) | CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = pre_bench_shapes,
    .bench_shape_count = COUNT(pre_bench_shapes),
};

static enum status build_post(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    int64_t count = shape->outer;
    struct hyper_connection_post_args *args = &kernel_case->args.hyper_connection_post;
    struct case_tensor streams;
    struct case_tensor branch;
    struct case_tensor post;
    struct case_tensor comb;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, count, shape->width, &streams));
    TRY(case_add_rows(kernel_case, 2, type, CASE_ROWS_DIFFER, 0, shape->width, &branch));
    TRY(case_add_rows(kernel_case, 3, DTYPE_F32, CASE_SAME_SIZE, 0, count, &post));
    TRY(case_add_rows(kernel_case, 4, DTYPE_F32, CASE_SAME_SIZE, count, count, &comb));
    TRY(case_mark_result(kernel_case, &streams, &post_tolerances[kernel_case->numerics]));
    args->streams = streams.tensor;
    args->branch = branch.tensor;
    args->post = post.tensor;
    args->comb = comb.tensor;
    kernel_case->operation_count =
        2.0 * (double)kernel_case->plan.row_count * (double)((1 + count) * count) * (double)shape->width;
    return STATUS_OK;
}

static const struct case_shape post_shapes[] = {
    {.width = 19, .outer = 1}, {.width = 33, .outer = 2},  {.width = 256, .outer = 4},
    {.width = 77, .outer = 4}, {.width = 45, .outer = 16},
};

static const struct case_shape post_bench_shapes[] = {{.label = "", .width = 2048, .outer = 4}};

const struct case_family case_family_hyper_connection_post = {
    .build = build_post,
    .shapes = post_shapes,
    .shape_count = COUNT(post_shapes),
    .styles = MOST_STYLES,
    .is_exact_by_value = true,
    .bench_shapes = post_bench_shapes,
    .bench_shape_count = COUNT(post_bench_shapes),
};

static enum status build_head(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    int64_t count = shape->outer;
    struct hyper_connection_head_args *args = &kernel_case->args.hyper_connection_head;
    struct case_tensor streams;
    const struct mix_weights *weights;
    if (shape->inner > 0) {
        TRY(case_add_source(kernel_case, 1, type, CASE_ROWS_DIFFER, shape->inner, count, shape->width,
                            &streams.tensor));
        TRY(case_add_picks(kernel_case, 3, 0, shape->inner, &args->rows));
    } else {
        TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, count, shape->width, &streams));
    }
    TRY(add_mix(kernel_case, count, 1, &weights));
    TRY(case_add_result(kernel_case, type, 0, shape->width, &out_tolerances[kernel_case->numerics],
                        &args->out));
    args->streams = streams.tensor;
    args->mix = &weights->mix;
    args->base = &weights->base;
    args->scale = &weights->scale;
    args->gate_epsilon = 1e-6f;
    args->norm_epsilon = 1e-6f;
    kernel_case->operation_count =
        2.0 * (double)kernel_case->plan.row_count * (double)(2 + count) * (double)(count * shape->width);
    return STATUS_OK;
}

static const struct case_shape head_shapes[] = {{.width = 16, .outer = 1},
                                                {.width = 33, .outer = 2},
                                                {.width = 256, .outer = 4},
                                                {.width = 45, .outer = 16},
                                                {.width = 77, .outer = 3, .inner = 1},
                                                {.width = 256, .outer = 4, .inner = 23}};

static const struct case_shape head_bench_shapes[] = {{.label = "", .width = 2048, .outer = 4}};

const struct case_family case_family_hyper_connection_head = {
    .build = build_head,
    .shapes = head_shapes,
    .shape_count = COUNT(head_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME) | CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = head_bench_shapes,
    .bench_shape_count = COUNT(head_bench_shapes),
};
