/*
 * Rows on their way into the state, and rows of a layout in general. Shapes: width, plain = channels kept in
 * bf16 (or rotary channels), window = rows of the ring, ratio. is_variant: rows of the indexer instead of
 * keys and values; neither: inputs of products.
 */
#include "kernelcheck/case_entries.h"
#include "kernelcheck/case_families.h"
#include "kernelcheck/case_values.h"

static const struct tolerance exact = {TOLERANCE_EXACT, 0, 0, "copies, codes and single fp32 operations"};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static struct row_layout shape_layout(const struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    enum row_kind stored = shape->is_variant ? ROW_KIND_INDEX : ROW_KIND_KV;
    return numerics_row_layout(kernel_case->numerics,
                               shape->is_variant || shape->plain > 0 ? stored : ROW_KIND_INPUT, shape->width,
                               shape->plain);
}

static enum status build_encode_rows(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct encode_rows_args *args = &kernel_case->args.encode_rows;
    struct case_tensor x;
    size_t operand;
    args->layout = shape_layout(kernel_case);
    size_t row_bytes = row_layout_bytes(&args->layout);
    TRY(case_add_rows(kernel_case, 1, case_activation(kernel_case), CASE_ROWS_DIFFER, 0, shape->width, &x));
    TRY(kernel_case_add_operand(kernel_case, (size_t)kernel_case->plan.row_count * row_bytes, CASE_ALIGNED,
                                &operand));
    TRY(kernel_case_add_output(kernel_case, operand, DTYPE_U8, row_bytes, &exact));
    args->x = x.tensor;
    args->out = case_operand_device(kernel_case, operand);
    return STATUS_OK;
}

static enum status build_decode_rows(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    const struct case_plan *plan = &kernel_case->plan;
    struct decode_rows_args *args = &kernel_case->args.decode_rows;
    size_t operand;
    args->layout = shape_layout(kernel_case);
    struct state_rows rows = {.layout = args->layout, .row_bytes = row_layout_bytes(&args->layout)};
    TRY(kernel_case_add_operand(kernel_case, (size_t)plan->row_count * rows.row_bytes, CASE_ALIGNED,
                                &operand));
    for (int64_t row = 0; row < plan->row_count; row++) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(plan, row, &position);
        TRY(case_put_row(kernel_case, &rows, operand, row, 1, segment->sequence, position));
    }
    args->rows = case_operand_device(kernel_case, operand);
    return case_add_result(kernel_case, case_activation(kernel_case), 0, shape->width, &exact, &args->out);
}

static const struct case_shape encode_rows_shapes[] = {
    {.width = 16, .plain = 16},
    {.width = 80, .plain = 16},
    {.width = 101, .plain = 5},
    {.width = 512, .plain = 64},
    {.width = 32, .is_variant = true},
    {.width = 128, .is_variant = true},
    {.width = 96, .plain = 2},
    {.width = 160, .is_variant = true},
    {.width = 128},
    {.width = 200},
    {.width = 384},
};

static const struct case_shape encode_rows_bench_shapes[] = {
    {.label = "kv", .width = 512, .plain = 64},
    {.label = "index", .width = 128, .is_variant = true},
    {.label = "input", .width = 4096},
};

const struct case_family case_family_encode_rows = {
    .build = build_encode_rows,
    .shapes = encode_rows_shapes,
    .shape_count = COUNT(encode_rows_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) |
              CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = encode_rows_bench_shapes,
    .bench_shape_count = COUNT(encode_rows_bench_shapes),
};

const struct case_family case_family_decode_rows = {
    .build = build_decode_rows,
    .shapes = encode_rows_shapes,
    .shape_count = COUNT(encode_rows_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_INTEGERS) | CASE_STYLE_BIT(CASE_EXTREME) |
              CASE_STYLE_BIT(CASE_ZERO),
    .bench_shapes = encode_rows_bench_shapes,
    .bench_shape_count = COUNT(encode_rows_bench_shapes),
};

/* The longest of the segments that have no history; -1: none. */
static int find_start(const struct case_plan *plan) {
    int found = -1;
    for (int s = 0; s < plan->segment_count; s++) {
        const struct case_segment *segment = &plan->segments[s];
        if (segment->first_position == 0 &&
            (found < 0 || segment->row_count > plan->segments[found].row_count)) {
            found = s;
        }
    }
    return found;
}

/*
 * A snapshot of the first half of a segment, in the slot that no segment has. Where a segment has history the
 * snapshot's rows are not all rows of the plan, which an output must be.
 */
static enum status add_snapshot(struct kernel_case *kernel_case, size_t ring, size_t row_bytes) {
    const struct case_plan *plan = &kernel_case->plan;
    struct batch_view *batch = &kernel_case->batch;
    struct row_layout bytes = {.encoding = ROW_F32, .width = 0};
    int64_t window = kernel_case->shape->window;
    int64_t *offsets;
    TRY(kernel_case_add_state_output(kernel_case, ring, &bytes, &exact, &offsets));
    struct case_output *output = &kernel_case->outputs[kernel_case->output_count - 1];
    output->is_rows = false;
    output->dtype = DTYPE_U8;
    output->row_bytes = row_bytes;
    int segment = find_start(plan);
    if (segment < 0) {
        return STATUS_OK;
    }
    int32_t rows = (plan->segments[segment].row_count + 1) / 2;
    batch->snapshot_count = 1;
    TRY(case_add_integers(kernel_case, &(int32_t){segment}, 1, &batch->snapshot_segment));
    TRY(case_add_integers(kernel_case, &rows, 1, &batch->snapshot_rows));
    TRY(case_add_integers(kernel_case, &(int32_t){0}, 1, &batch->snapshot_slot));
    int64_t first_row = case_plan_find(plan, plan->segments[segment].sequence, 0);
    for (int64_t i = rows > window ? rows - window : 0; i < rows; i++) {
        offsets[first_row + i] = i % window * (int64_t)row_bytes;
    }
    return STATUS_OK;
}

static enum status build_commit_rows(struct kernel_case *kernel_case) {
    const struct case_plan *plan = &kernel_case->plan;
    struct commit_rows_args *args = &kernel_case->args.commit_rows;
    struct row_layout layout = shape_layout(kernel_case);
    struct row_layout bytes = {.encoding = ROW_F32, .width = 0};
    size_t ring;
    int64_t *offsets;
    TRY(case_add_chunk(kernel_case, 1, layout, kernel_case->shape->window, kernel_case->shape->window,
                       &args->chunk, &ring));
    TRY(kernel_case_add_state_output(kernel_case, ring, &bytes, &exact, &offsets));
    struct case_output *output = &kernel_case->outputs[kernel_case->output_count - 1];
    output->is_rows = false;
    output->dtype = DTYPE_U8;
    output->row_bytes = args->chunk.ring.row_bytes;
    for (int64_t row = 0, s = 0; s < plan->segment_count; s++) {
        const struct case_segment *segment = &plan->segments[s];
        for (int64_t i = 0; i < segment->row_count; i++, row++) {
            int64_t at = case_slot(kernel_case, (int)s) * kernel_case->shape->window +
                         (segment->first_position + i) % kernel_case->shape->window;
            bool is_kept = segment->row_count - i <= kernel_case->shape->window;
            offsets[row] = is_kept ? at * (int64_t)output->row_bytes : -1;
        }
    }
    args->batch = &kernel_case->batch;
    return add_snapshot(kernel_case, ring, output->row_bytes);
}

static const struct case_shape commit_rows_shapes[] = {
    {.width = 8, .plain = 8, .window = 1},      {.width = 80, .plain = 16, .window = 7},
    {.width = 512, .plain = 64, .window = 128}, {.width = 64, .window = 33, .is_variant = true},
    {.width = 101, .plain = 5, .window = 131},
};

static const struct case_shape commit_rows_bench_shapes[] = {
    {.label = "kv", .width = 512, .plain = 64, .window = 129}};

const struct case_family case_family_commit_rows = {
    .build = build_commit_rows,
    .shapes = commit_rows_shapes,
    .shape_count = COUNT(commit_rows_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL),
    .is_stateful = true,
    .bench_shapes = commit_rows_bench_shapes,
    .bench_shape_count = COUNT(commit_rows_bench_shapes),
};

static enum status build_compressor_rows(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct compressor_rows_args *args = &kernel_case->args.compressor_rows;
    struct case_tensor values;
    struct case_tensor scores;
    struct weight bias;
    TRY(case_add_rows(kernel_case, 1, DTYPE_F32, CASE_ROWS_DIFFER, 0, shape->width, &values));
    TRY(case_add_rows(kernel_case, 2, DTYPE_F32, CASE_ROWS_DIFFER, 0, shape->width, &scores));
    TRY(case_add_plain(kernel_case, 3, DTYPE_F32, shape->ratio, shape->width, 1.0f, &bias));
    TRY(case_add_result(kernel_case, DTYPE_F32, 0, 2 * shape->width, &exact, &args->out));
    args->values = values.tensor;
    args->scores = scores.tensor;
    args->bias = case_keep(kernel_case, &bias, sizeof bias);
    CHECK_MEMORY(args->bias);
    args->positions = kernel_case->batch.positions;
    return STATUS_OK;
}

static const struct case_shape compressor_rows_shapes[] = {
    {.width = 1, .ratio = 1}, {.width = 77, .ratio = 4}, {.width = 512, .ratio = 128}};

static const struct case_shape compressor_rows_bench_shapes[] = {{.label = "", .width = 1024, .ratio = 4}};

const struct case_family case_family_compressor_rows = {
    .build = build_compressor_rows,
    .shapes = compressor_rows_shapes,
    .shape_count = COUNT(compressor_rows_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME),
    .bench_shapes = compressor_rows_bench_shapes,
    .bench_shape_count = COUNT(compressor_rows_bench_shapes),
};

static const struct tolerance entry_f32 = {TOLERANCE_NMSE, 1e-10, 1e-8, "fp32 softmax, norm and rotation"};
static const struct tolerance entry_fp8 = {TOLERANCE_NMSE, 1e-4, 5e-3,
                                           "an fp32 error can flip a bf16, and that one an fp8 code of 12%"};
static const struct tolerance entry_fp4 = {TOLERANCE_NMSE, 2e-3, 5e-2,
                                           "an fp32 error can flip a bf16, and that one an fp4 code of 50%"};

static const struct tolerance *entry_tolerance(const struct row_layout *layout) {
    switch (layout->encoding) {
    case ROW_FP8:
        return &entry_fp8;
    case ROW_FP4:
        return &entry_fp4;
    default:
        return &entry_f32;
    }
}

/* Where each row of the plan that ends a block writes its entry. */
static void place_entries(const struct kernel_case *kernel_case, const struct case_entries *entries,
                          int64_t *offsets) {
    const struct case_plan *plan = &kernel_case->plan;
    int64_t ratio = kernel_case->shape->ratio;
    for (int64_t row = 0, s = 0; s < plan->segment_count; s++) {
        for (int64_t i = 0; i < plan->segments[s].row_count; i++, row++) {
            int64_t position = plan->segments[s].first_position + i;
            if ((position + 1) % ratio == 0) {
                int64_t at = case_entry_row(entries, case_slot(kernel_case, (int)s), position / ratio);
                offsets[row] = at * (int64_t)entries->store.row_bytes;
            }
        }
    }
}

static enum status build_compress_entries(struct kernel_case *kernel_case) {
    const struct case_shape *shape = kernel_case->shape;
    struct compress_entries_args *args = &kernel_case->args.compress_entries;
    struct row_layout layout = shape_layout(kernel_case);
    bool has_overlap = shape->ratio == 4;
    int64_t raw_width = has_overlap ? 2 * shape->width : shape->width;
    int64_t history = has_overlap ? 2 * shape->ratio : shape->ratio;
    struct row_layout raw = {.encoding = ROW_F32, .width = 2 * raw_width};
    struct weight norm;
    struct rope_table rope;
    struct case_entries entries;
    int64_t *offsets;
    TRY(case_add_chunk(kernel_case, 1, raw, history + shape->window, history, &args->raw, NULL));
    TRY(case_add_entries(kernel_case, layout, &entries));
    TRY(kernel_case_add_state_output(kernel_case, entries.operand, &layout, entry_tolerance(&layout),
                                     &offsets));
    place_entries(kernel_case, &entries, offsets);
    args->entries = entries.store;
    TRY(case_add_plain(kernel_case, 2, shape->weight_dtype, 1, shape->width, 1.0f, &norm));
    rope_table_init(&rope, (int)(shape->plain / 2), 160000, NULL);
    args->batch = &kernel_case->batch;
    args->norm = case_keep(kernel_case, &norm, sizeof norm);
    args->rope = case_keep(kernel_case, &rope, sizeof rope);
    CHECK_MEMORY(args->norm);
    CHECK_MEMORY(args->rope);
    args->rounding = case_activation(kernel_case);
    args->ratio = shape->ratio;
    args->width = shape->width;
    args->has_overlap = has_overlap;
    args->has_hadamard = shape->is_variant;
    args->epsilon = 1e-6f;
    return STATUS_OK;
}

/* window: rows of the raw ring beyond what the blocks need; page_rows: entries of a page. */
static const struct case_shape compress_entries_shapes[] = {
    {.width = 80, .plain = 16, .ratio = 4, .page_rows = 1, .weight_dtype = DTYPE_BF16},
    {.width = 64, .plain = 32, .ratio = 4, .page_rows = 9, .weight_dtype = DTYPE_F32, .is_variant = true},
    {.width = 512, .plain = 64, .ratio = 4, .window = 3, .weight_dtype = DTYPE_BF16},
    {.width = 128, .plain = 64, .ratio = 4, .window = 1, .weight_dtype = DTYPE_BF16, .is_variant = true},
    {.width = 101, .plain = 6, .ratio = 8, .weight_dtype = DTYPE_F32},
    {.width = 512, .plain = 64, .ratio = 128, .weight_dtype = DTYPE_BF16},
};

static const struct case_shape compress_entries_bench_shapes[] = {
    {.label = "kv 4", .width = 512, .plain = 64, .ratio = 4, .weight_dtype = DTYPE_BF16},
    {.label = "kv 128", .width = 512, .plain = 64, .ratio = 128, .weight_dtype = DTYPE_BF16},
    {.label = "index", .width = 128, .plain = 64, .ratio = 4, .weight_dtype = DTYPE_BF16, .is_variant = true},
};

const struct case_family case_family_compress_entries = {
    .build = build_compress_entries,
    .shapes = compress_entries_shapes,
    .shape_count = COUNT(compress_entries_shapes),
    .styles = CASE_STYLE_BIT(CASE_NORMAL) | CASE_STYLE_BIT(CASE_EXTREME) | CASE_STYLE_BIT(CASE_ZERO),
    .is_stateful = true,
    .bench_shapes = compress_entries_bench_shapes,
    .bench_shape_count = COUNT(compress_entries_bench_shapes),
};
