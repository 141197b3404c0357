/*
 * Indexer and attention. Shapes: width, outer = heads, plain = channels kept in bf16, limit = entries that a
 * selection holds, window, ratio, page_rows = entries of a page.
 */
#include <math.h>

#include "kernelcheck/case_entries.h"
#include "kernelcheck/case_families.h"
#include "kernelcheck/case_random.h"
#include "kernelcheck/case_values.h"

static const struct tolerance exact = {TOLERANCE_EXACT, 0, 0, "the scores are exact, so the choice is"};
static const struct tolerance rotate_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_ULP, 8, 0.25, "fp32 sums of all channels, which can cancel"},
    {TOLERANCE_NMSE, 1e-3, 2e-2, "an fp32 error can flip a bf16, and that one an fp4 code of 50%"},
};
static const struct tolerance attention_tolerances[NUMERICS_COUNT] = {
    {TOLERANCE_NMSE, 1e-10, 1e-8, "fp32 logits, exponentials and sums against double"},
    {TOLERANCE_NMSE, 1e-5, 5e-5, "weights and results may be rounded to bf16"},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static enum status build_indexer_rotate(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct case_tensor x;
    TRY(case_add_rows(kernel_case, 1, case_activation(kernel_case), CASE_ROWS_DIFFER, shape->outer,
                      shape->width, &x));
    TRY(case_mark_result(kernel_case, &x, &rotate_tolerances[kernel_case->numerics]));
    kernel_case->args.indexer_rotate.x = x.tensor;
    return STATUS_OK;
}

static const struct case_shape indexer_rotate_shapes[] = {{.width = 32, .outer = 1},
                                                          {.width = 64, .outer = 3},
                                                          {.width = 128, .outer = 16},
                                                          {.width = 512, .outer = 2}};

static const struct case_shape indexer_rotate_bench_shapes[] = {{.label = "", .width = 128, .outer = 16}};

const struct case_family case_family_indexer_rotate = {
    .build = build_indexer_rotate,
    .shapes = indexer_rotate_shapes,
    .shape_count = COUNT(indexer_rotate_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) |
              CASE_STYLE_BIT(CASE_ZERO),
    .is_exact_by_value = true,
    .bench_shapes = indexer_rotate_bench_shapes,
    .bench_shape_count = COUNT(indexer_rotate_bench_shapes),
};

/* Visible entries of all rows together. */
static double visible_sum(const struct case_plan *plan, int64_t ratio, int64_t limit) {
    double sum = 0.0;
    for (int s = 0; s < plan->segment_count; s++) {
        for (int64_t i = 0; i < plan->segments[s].row_count; i++) {
            int64_t visible = ratio == 0 ? 0 : (plan->segments[s].first_position + i + 1) / ratio;
            sum += (double)(limit > 0 && visible > limit ? limit : visible);
        }
    }
    return sum;
}

static enum status build_indexer_select(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum dtype type = case_activation(kernel_case);
    struct indexer_select_args *args = &kernel_case->args.indexer_select;
    struct case_tensor queries;
    struct case_tensor head_weights;
    struct case_entries keys;
    struct row_layout layout = numerics_row_layout(kernel_case->numerics, ROW_KIND_INDEX, shape->width, 0);
    TRY(case_add_rows(kernel_case, 1, type, CASE_SAME_SIZE, shape->outer, shape->width, &queries));
    TRY(case_add_rows(kernel_case, 2, type, CASE_SAME_SIZE, 0, shape->outer, &head_weights));
    TRY(case_add_entries(kernel_case, layout, &keys));
    TRY(case_fill_entries(kernel_case, &keys, 3));
    args->keys = keys.store;
    TRY(case_add_result(kernel_case, DTYPE_I32, 0, shape->limit, &exact, &args->selection));
    args->queries = queries.tensor;
    args->head_weights = head_weights.tensor;
    args->batch = &kernel_case->batch;
    args->ratio = shape->ratio;
    args->weight_scale = 0x1p-5f;
    double scored = visible_sum(&kernel_case->plan, shape->ratio, 0);
    kernel_case->operation_count = 2.0 * scored * (double)(shape->outer * shape->width);
    return STATUS_OK;
}

static const struct case_shape indexer_select_shapes[] = {
    {.width = 32, .outer = 1, .limit = 1, .ratio = 4, .page_rows = 1},
    {.width = 64, .outer = 3, .limit = 7, .ratio = 4, .page_rows = 7},
    {.width = 128, .outer = 16, .limit = 64, .ratio = 4},
    {.width = 96, .outer = 5, .limit = 20, .ratio = 2},
    {.width = 128, .outer = 4, .limit = 512, .ratio = 4},
};

static const struct case_shape indexer_select_bench_shapes[] = {
    {.label = "at 4096", .width = 128, .outer = 16, .limit = 512, .ratio = 4}};

const struct case_family case_family_indexer_select = {
    .build = build_indexer_select,
    .shapes = indexer_select_shapes,
    .shape_count = COUNT(indexer_select_shapes),
    /* Other numbers can tie by rounding, and then two right answers differ. */
    .styles = CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_ZERO),
    .is_stateful = true,
    .bench_shapes = indexer_select_bench_shapes,
    .bench_shape_count = COUNT(indexer_select_bench_shapes),
};

/* Up to `limit` visible entries in ascending order, then -1. */
static void draw_selection(struct case_random *random, int64_t visible, int64_t limit, int32_t *out) {
    int64_t count = 0;
    int64_t wanted = visible < limit ? visible : limit;
    for (int64_t entry = 0; entry < visible && count < wanted; entry++) {
        if (case_random_below(random, visible - entry) < wanted - count) {
            out[count++] = (int32_t)entry;
        }
    }
    for (; count < limit; count++) {
        out[count] = -1;
    }
}

static enum status add_selection(struct kernel_case *kernel_case, struct tensor *out) {
    const struct case_shape *shape = kernel_case->shape;
    int64_t rows = kernel_case->plan.row_count;
    size_t operand;
    TRY(kernel_case_add_operand(kernel_case, (size_t)(rows * shape->limit) * sizeof(int32_t), CASE_ALIGNED,
                                &operand));
    int32_t *selection = case_operand_image(kernel_case, operand);
    for (int64_t row = 0; row < rows; row++) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(&kernel_case->plan, row, &position);
        struct case_random random = case_random_start(kernel_case->seed, 7, segment->sequence, position);
        draw_selection(&random, (position + 1) / shape->ratio, shape->limit, selection + row * shape->limit);
    }
    *out = (struct tensor){.dtype = DTYPE_I32,
                           .rank = 2,
                           .shape = {rows, shape->limit},
                           .data = case_operand_device(kernel_case, operand)};
    return STATUS_OK;
}

/* The output, which may take the queries' memory. */
static enum status add_attention_out(struct kernel_case *kernel_case, const struct case_tensor *queries,
                                     struct sparse_attention_args *args) {
    const struct case_shape *shape = kernel_case->shape;
    const struct tolerance *tolerance = &attention_tolerances[kernel_case->numerics];
    args->queries = queries->tensor;
    args->out = queries->tensor;
    if (shape->is_in_place) {
        TRY(case_mark_result(kernel_case, queries, tolerance));
    } else {
        TRY(case_add_result(kernel_case, case_activation(kernel_case), shape->outer, shape->width, tolerance,
                            &args->out));
    }
    return STATUS_OK;
}

static enum status build_sparse_attention(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct sparse_attention_args *args = &kernel_case->args.sparse_attention;
    struct row_layout layout =
        numerics_row_layout(kernel_case->numerics, ROW_KIND_KV, shape->width, shape->plain);
    struct case_tensor queries;
    struct weight sink;
    TRY(case_add_rows(kernel_case, 1, case_activation(kernel_case), CASE_SAME_SIZE, shape->outer,
                      shape->width, &queries));
    TRY(add_attention_out(kernel_case, &queries, args));
    /* One row more than the window: a ring with room for a draft. */
    TRY(case_add_chunk(kernel_case, 2, layout, shape->window + (shape->is_variant ? 1 : 0), shape->window,
                       &args->window_rows, NULL));
    if (shape->ratio > 0) {
        struct case_entries entries;
        TRY(case_add_entries(kernel_case, layout, &entries));
        TRY(case_fill_entries(kernel_case, &entries, 3));
        args->entries = entries.store;
    }
    if (shape->limit > 0) {
        TRY(add_selection(kernel_case, &args->selection));
    }
    TRY(case_add_plain(kernel_case, 4, DTYPE_F32, 1, shape->outer, 1.0f, &sink));
    args->sink = case_keep(kernel_case, &sink, sizeof sink);
    CHECK_MEMORY(args->sink);
    args->batch = &kernel_case->batch;
    args->window = shape->window;
    args->ratio = shape->ratio;
    args->scale = 1.0f / sqrtf((float)shape->width);
    double keys = visible_sum(&kernel_case->plan, shape->ratio, shape->limit) +
                  visible_sum(&kernel_case->plan, 1, shape->window);
    kernel_case->operation_count = 4.0 * keys * (double)(shape->outer * shape->width);
    return STATUS_OK;
}

static const struct case_shape sparse_attention_shapes[] = {
    {.width = 16, .outer = 1, .plain = 16, .window = 1},
    {.width = 80, .outer = 3, .plain = 16, .window = 8, .is_in_place = true},
    {.width = 101, .outer = 2, .plain = 5, .window = 33, .ratio = 4, .page_rows = 5, .is_variant = true},
    {.width = 64, .outer = 8, .plain = 16, .window = 64, .ratio = 4, .limit = 64},
    {.width = 176, .outer = 2, .plain = 16, .window = 16, .ratio = 128, .is_variant = true},
    {.width = 512, .outer = 4, .plain = 64, .window = 128, .ratio = 4, .limit = 24, .is_variant = true},
    {.width = 512, .outer = 18, .plain = 64, .window = 16, .ratio = 128, .is_in_place = true},
    {.width = 128, .outer = 33, .plain = 64, .window = 128, .ratio = 4, .limit = 200, .page_rows = 1},
};

static const struct case_shape sparse_attention_bench_shapes[] = {
    {.label = "window", .width = 512, .outer = 32, .plain = 64, .window = 128},
    {.label = "ratio 4", .width = 512, .outer = 32, .plain = 64, .window = 128, .ratio = 4, .limit = 512},
    {.label = "ratio 128", .width = 512, .outer = 32, .plain = 64, .window = 128, .ratio = 128},
};

const struct case_family case_family_sparse_attention = {
    .build = build_sparse_attention,
    .shapes = sparse_attention_shapes,
    .shape_count = COUNT(sparse_attention_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME) | CASE_STYLE_BIT(CASE_ZERO),
    .is_stateful = true,
    .bench_shapes = sparse_attention_bench_shapes,
    .bench_shape_count = COUNT(sparse_attention_bench_shapes),
};
