/*
 * Routing and experts. Shapes: width, inner = inner width of an expert, experts, picks, leaves of w2.
 * route_experts: is_variant routes by a table of `inner` rows whose type is scale_dtype, is_f32 scores by
 * sigmoid, is_in_place leaves the bias out.
 */
#include <math.h>
#include <string.h>

#include "kernelcheck/case_families.h"
#include "kernelcheck/case_random.h"
#include "kernelcheck/case_values.h"

static const struct tolerance exact = {TOLERANCE_EXACT, 0, 0, "copies and sums in a fixed order"};
static const struct tolerance weight_tolerance = {TOLERANCE_ULP, 16, 0,
                                                  "exp and log of the score, one quotient"};
static const struct tolerance expert_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_NMSE, 1e-11, 1e-9, "fp32 sums against double"},
    {TOLERANCE_NMSE, 1e-5, 2e-3, "an error of a sum can flip an inner bf16, and that one an fp8 code of 12%"},
};

/* `picks` different experts. */
static void draw_experts(struct case_random *random, int64_t experts, int64_t picks, int32_t *out) {
    for (int64_t k = 0; k < picks; k++) {
        bool is_new = false;
        while (!is_new) {
            out[k] = (int32_t)case_random_below(random, experts);
            is_new = true;
            for (int64_t other = 0; other < k; other++) {
                is_new = is_new && out[other] != out[k];
            }
        }
    }
}

/* The experts that each row of the plan goes to, as a tensor. */
static enum status add_routes(struct kernel_case *kernel_case, struct tensor *out, int64_t *used_count) {
    const struct case_shape *shape = kernel_case->shape;
    int64_t rows = kernel_case->plan.row_count;
    size_t operand;
    TRY(kernel_case_add_operand(kernel_case, (size_t)(rows * shape->picks) * sizeof(int32_t), CASE_ALIGNED,
                                &operand));
    unsigned char *is_used = arena_alloc(&kernel_case->arena, (size_t)shape->experts, 1, 1);
    CHECK_MEMORY(is_used);
    int32_t *routes = case_operand_image(kernel_case, operand);
    for (int64_t row = 0; row < rows; row++) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(&kernel_case->plan, row, &position);
        struct case_random random = case_random_start(kernel_case->seed, 20, segment->sequence, position);
        draw_experts(&random, shape->experts, shape->picks, routes + row * shape->picks);
        for (int64_t k = 0; k < shape->picks; k++) {
            int32_t expert = routes[row * shape->picks + k];
            *used_count += is_used[expert] == 0;
            is_used[expert] = 1;
        }
    }
    *out = (struct tensor){.dtype = DTYPE_I32,
                           .rank = 2,
                           .shape = {rows, shape->picks},
                           .data = case_operand_device(kernel_case, operand)};
    return STATUS_OK;
}

static enum status add_bank(struct kernel_case *kernel_case, const struct expert_weights **out) {
    const struct case_shape *shape = kernel_case->shape;
    size_t count = (size_t)shape->experts;
    struct weight *gate = ARENA_NEW(&kernel_case->arena, struct weight, count);
    struct weight *up = ARENA_NEW(&kernel_case->arena, struct weight, count);
    struct weight *down = ARENA_NEW(&kernel_case->arena, struct weight, count);
    CHECK_MEMORY(gate);
    CHECK_MEMORY(up);
    CHECK_MEMORY(down);
    for (unsigned e = 0; e < count; e++) {
        TRY(case_add_weight(kernel_case, 100 + 3 * e, shape->inner, shape->width, &gate[e]));
        TRY(case_add_weight(kernel_case, 101 + 3 * e, shape->inner, shape->width, &up[e]));
        TRY(case_add_weight(kernel_case, 102 + 3 * e, shape->width, shape->inner, &down[e]));
        down[e].leaves = leaves_whole(shape->inner, shape->leaves);
    }
    struct expert_weights bank = {.gate = gate, .up = up, .down = down, .count = shape->experts};
    *out = case_keep(kernel_case, &bank, sizeof bank);
    CHECK_MEMORY(*out);
    return STATUS_OK;
}

static enum status build_moe_experts(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    struct moe_experts_args *args = &kernel_case->args.moe_experts;
    struct case_tensor x;
    struct case_tensor weights;
    int64_t used_count = 0;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, 0, shape->width, &x));
    TRY(case_add_rows(kernel_case, 2, DTYPE_F32, CASE_SAME_SIZE, 0, shape->picks, &weights));
    TRY(add_routes(kernel_case, &args->experts, &used_count));
    TRY(add_bank(kernel_case, &args->bank));
    TRY(case_add_result(kernel_case, type, shape->picks, shape->width,
                        &expert_tolerances[kernel_case->numerics], &args->out));
    args->x = x.tensor;
    args->weights = weights.tensor;
    args->clamp = 10.0f;
    const struct weight *gate = args->bank->gate;
    const struct weight *down = args->bank->down;
    size_t expert_bytes = 2 * (weight_data_bytes(gate) + weight_scale_bytes(gate)) + weight_data_bytes(down) +
                          weight_scale_bytes(down);
    kernel_case->used_bytes =
        (size_t)used_count * expert_bytes + tensor_bytes(&args->x) + tensor_bytes(&args->out);
    kernel_case->operation_count = 6.0 * (double)(kernel_case->plan.row_count * shape->picks) *
                                   (double)shape->width * (double)shape->inner;
    return STATUS_OK;
}

static const struct case_shape moe_experts_shapes[] = {
    {.width = 64, .inner = 32, .experts = 3, .picks = 2, .format = WEIGHT_FP4, .scale_dtype = DTYPE_F8_E8M0},
    {.width = 160, .inner = 96, .experts = 9, .picks = 3, .format = WEIGHT_FP4, .scale_dtype = DTYPE_F8_E8M0},
    {.width = 544,
     .inner = 288,
     .experts = 4,
     .picks = 1,
     .format = WEIGHT_FP4,
     .scale_dtype = DTYPE_F8_E8M0},
    {.width = 96, .inner = 64, .experts = 4, .picks = 4, .format = WEIGHT_FP4, .scale_dtype = DTYPE_F32},
    {.width = 130, .inner = 70, .experts = 5, .picks = 2, .format = WEIGHT_FP8, .scale_dtype = DTYPE_F8_E8M0},
    {.width = 256, .inner = 128, .experts = 6, .picks = 3, .format = WEIGHT_FP8, .scale_dtype = DTYPE_F32},
    {.width = 64,
     .inner = 2080,
     .experts = 3,
     .picks = 2,
     .format = WEIGHT_FP4,
     .scale_dtype = DTYPE_F8_E8M0,
     .leaves = 16},
    {.width = 40,
     .inner = 300,
     .experts = 3,
     .picks = 2,
     .format = WEIGHT_FP8,
     .scale_dtype = DTYPE_F8_E8M0,
     .leaves = 16},
    {.width = 45, .inner = 23, .experts = 4, .picks = 2, .format = WEIGHT_PLAIN, .weight_dtype = DTYPE_BF16},
    {.width = 40, .inner = 17, .experts = 2, .picks = 1, .format = WEIGHT_PLAIN, .weight_dtype = DTYPE_F32},
};

static const struct case_shape moe_experts_bench_shapes[] = {
    {.label = "fp4",
     .width = 2048,
     .inner = 1024,
     .experts = 64,
     .picks = 6,
     .format = WEIGHT_FP4,
     .scale_dtype = DTYPE_F8_E8M0,
     .leaves = 16},
};

const struct case_family case_family_moe_experts = {
    .build = build_moe_experts,
    .shapes = moe_experts_shapes,
    .shape_count = sizeof moe_experts_shapes / sizeof moe_experts_shapes[0],
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME) | CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = moe_experts_bench_shapes,
    .bench_shape_count = sizeof moe_experts_bench_shapes / sizeof moe_experts_bench_shapes[0],
};

static enum status build_moe_combine(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    struct moe_combine_args *args = &kernel_case->args.moe_combine;
    struct case_tensor routed;
    struct case_tensor shared;
    TRY(case_add_rows(kernel_case, 1, type, CASE_ROWS_DIFFER, shape->picks, shape->width, &routed));
    TRY(case_add_rows(kernel_case, 2, type, CASE_ROWS_DIFFER, 0, shape->width, &shared));
    if (shape->is_in_place) {
        TRY(case_mark_result(kernel_case, &shared, &exact));
        args->out = shared.tensor;
    } else {
        TRY(case_add_result(kernel_case, type, 0, shape->width, &exact, &args->out));
    }
    args->routed = routed.tensor;
    args->shared = shared.tensor;
    return STATUS_OK;
}

static const struct case_shape moe_combine_shapes[] = {
    {.width = 1, .picks = 1},
    {.width = 77, .picks = 6},
    {.width = 512, .picks = 8, .is_in_place = true},
    {.width = 35, .picks = 2, .is_in_place = true},
};

static const struct case_shape moe_combine_bench_shapes[] = {{.label = "", .width = 2048, .picks = 6}};

const struct case_family case_family_moe_combine = {
    .build = build_moe_combine,
    .shapes = moe_combine_shapes,
    .shape_count = sizeof moe_combine_shapes / sizeof moe_combine_shapes[0],
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME),
    .bench_shapes = moe_combine_bench_shapes,
    .bench_shape_count = sizeof moe_combine_bench_shapes / sizeof moe_combine_bench_shapes[0],
};

/* (inner, picks) integers at an odd address. */
static enum status add_table(struct kernel_case *kernel_case, struct tensor *out) {
    const struct case_shape *shape = kernel_case->shape;
    size_t operand;
    size_t step = dtype_bytes(shape->scale_dtype);
    TRY(kernel_case_add_operand(kernel_case, (size_t)(shape->inner * shape->picks) * step, CASE_ODD,
                                &operand));
    unsigned char *image = case_operand_image(kernel_case, operand);
    int32_t *picked = ARENA_NEW(&kernel_case->arena, int32_t, (size_t)shape->picks);
    CHECK_MEMORY(picked);
    struct case_random random = case_random_start(kernel_case->seed, 30, 0, 0);
    for (int64_t row = 0; row < shape->inner; row++) {
        draw_experts(&random, shape->experts, shape->picks, picked);
        for (int64_t k = 0; k < shape->picks; k++, image += step) {
            int64_t wide = picked[k];
            memcpy(image, shape->scale_dtype == DTYPE_I64 ? (const void *)&wide : &picked[k], step);
        }
    }
    *out = (struct tensor){.dtype = shape->scale_dtype,
                           .rank = 2,
                           .shape = {shape->inner, shape->picks},
                           .data = case_operand_device(kernel_case, operand)};
    return STATUS_OK;
}

/* What experts are chosen by: score and bias. */
static void selection_keys(const struct case_shape *shape, const float *logits, const float *bias,
                           float *keys) {
    for (int64_t e = 0; e < shape->experts; e++) {
        double z = logits[e];
        double score = shape->is_f32 ? 1.0 / (1.0 + exp(-z)) : sqrt(z > 20.0 ? z : log1p(exp(z)));
        keys[e] = (float)score + (bias == NULL ? 0.0f : bias[e]);
    }
}

/*
 * Whether rounding could swap two picks: keys that are close, but not equal because their inputs are. Experts
 * beyond the picks count if they come near the last of them.
 */
static bool is_ambiguous(const struct case_shape *shape, const float *logits, const float *bias,
                         const float *keys) {
    const float margin = 1e-5f;
    for (int64_t e = 0; e < shape->experts; e++) {
        int64_t better_count = 0;
        bool is_close = false;
        for (int64_t other = 0; other < shape->experts; other++) {
            float distance = keys[other] - keys[e];
            bool is_tie = logits[other] == logits[e] && (bias == NULL || bias[other] == bias[e]);
            better_count += distance > margin;
            is_close = is_close || (!is_tie && fabsf(distance) <= margin);
        }
        if (is_close && better_count < shape->picks) {
            return true;
        }
    }
    return false;
}

/* Draws the logits of each row until they leave no doubt about the picks, so that these can be exact. */
static enum status add_logits(struct kernel_case *kernel_case, const float *bias, struct tensor *out) {
    enum { DRAWS_MAX = 20, DRAW_IDS = 50 };
    const struct case_shape *shape = kernel_case->shape;
    struct case_tensor logits;
    TRY(case_add_rows(kernel_case, 1, DTYPE_F32, CASE_SAME_SIZE, 0, shape->experts, &logits));
    float *image = case_operand_image(kernel_case, logits.operand);
    float *keys = ARENA_NEW(&kernel_case->arena, float, (size_t)shape->experts);
    CHECK_MEMORY(keys);
    for (int64_t row = 0; row < kernel_case->plan.row_count; row++, image += shape->experts) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(&kernel_case->plan, row, &position);
        selection_keys(shape, image, bias, keys);
        for (unsigned draw = 0; draw < DRAWS_MAX && is_ambiguous(shape, image, bias, keys); draw++) {
            case_row_values(kernel_case, DRAW_IDS + draw, segment->sequence, position, CASE_SAME_SIZE, image,
                            shape->experts);
            selection_keys(shape, image, bias, keys);
        }
    }
    *out = logits.tensor;
    return STATUS_OK;
}

/* The bias, and its values in the case's arena. */
static enum status add_bias(struct kernel_case *kernel_case, const struct weight **out,
                            const float **values) {
    struct weight bias;
    size_t bytes = (size_t)kernel_case->shape->experts * sizeof(float);
    TRY(case_add_plain(kernel_case, 2, DTYPE_F32, 1, kernel_case->shape->experts, 1.0f, &bias));
    *out = case_keep(kernel_case, &bias, sizeof bias);
    *values = case_keep(kernel_case, case_operand_image(kernel_case, kernel_case->operand_count - 1), bytes);
    CHECK_MEMORY(*out);
    CHECK_MEMORY(*values);
    return STATUS_OK;
}

static enum status build_route_experts(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct route_experts_args *args = &kernel_case->args.route_experts;
    const float *bias = NULL;
    if (!shape->is_in_place) {
        TRY(add_bias(kernel_case, &args->bias, &bias));
    }
    TRY(add_logits(kernel_case, bias, &args->logits));
    if (shape->is_variant) {
        TRY(add_table(kernel_case, &args->table));
        args->token_ids = kernel_case->batch.token_ids;
    }
    TRY(case_add_result(kernel_case, DTYPE_I32, 0, shape->picks, &exact, &args->experts));
    TRY(case_add_result(kernel_case, DTYPE_F32, 0, shape->picks, &weight_tolerance, &args->weights));
    args->score = shape->is_f32 ? ROUTE_SCORE_SIGMOID : ROUTE_SCORE_SQRT_SOFTPLUS;
    args->scaling = 1.5f;
    return STATUS_OK;
}

static const struct case_shape route_experts_shapes[] = {
    {.experts = 1, .picks = 1},
    {.experts = 7, .picks = 7},
    {.experts = 64, .picks = 6},
    {.experts = 64, .picks = 6, .is_f32 = true},
    {.experts = 35, .picks = 4, .is_in_place = true},
    {.experts = 384, .picks = 8, .is_f32 = true, .is_in_place = true},
    {.experts = 16, .picks = 3, .inner = 1000, .is_variant = true, .scale_dtype = DTYPE_I64},
    {.experts = 50,
     .picks = 6,
     .inner = 40000,
     .is_variant = true,
     .is_in_place = true,
     .scale_dtype = DTYPE_I32},
};

static const struct case_shape route_experts_bench_shapes[] = {
    {.label = "by score", .experts = 64, .picks = 6},
    {.label = "by table",
     .experts = 64,
     .picks = 6,
     .inner = 32768,
     .is_variant = true,
     .scale_dtype = DTYPE_I64},
};

const struct case_family case_family_route_experts = {
    .build = build_route_experts,
    .shapes = route_experts_shapes,
    .shape_count = sizeof route_experts_shapes / sizeof route_experts_shapes[0],
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) |
              CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = route_experts_bench_shapes,
    .bench_shape_count = sizeof route_experts_bench_shapes / sizeof route_experts_bench_shapes[0],
};
