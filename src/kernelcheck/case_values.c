/* Numbers by style, and the operands that hold them. */
#include "kernelcheck/case_values.h"

#include <stdlib.h>
#include <string.h>

#include "kernelcheck/case_random.h"
#include "tensor/elements.h"
#include "tensor/number_format.h"

enum { INTEGER_LIMIT = 4, SIZE_EXPONENT = 30, SCALE_BYTE_OF_ONE = 127 };

enum dtype case_activation(const struct kernel_case *kernel_case) {
    return numerics_activation_dtype(kernel_case->numerics);
}

/* Ordinary numbers with zeros, subnormals, tiny and somewhat larger ones among them. */
static float extreme_value(struct case_random *random) {
    float value = case_random_unit(random);
    switch (case_random_below(random, 10)) {
    case 0:
        return 0.0f;
    case 1:
        return -0.0f;
    case 2:
        return value * 0x1p-130f;
    case 3:
        return value * 0x1p-20f;
    case 4:
        return value * 8.0f;
    default:
        return value;
    }
}

static float style_value(enum case_style style, struct case_random *random) {
    switch (style) {
    case CASE_INTEGERS:
        return (float)(case_random_below(random, 2 * INTEGER_LIMIT + 1) - INTEGER_LIMIT);
    case CASE_EXTREME:
        return extreme_value(random);
    case CASE_ZERO:
        return 0.0f;
    case CASE_LARGE:
        return case_random_unit(random) * 0x1p-10f;
    default:
        return case_random_unit(random) + case_random_unit(random);
    }
}

void case_row_values(const struct kernel_case *kernel_case, unsigned id, int32_t sequence, int32_t position,
                     enum case_range range, float *out, int64_t count) {
    struct case_random random = case_random_start(kernel_case->seed, id, sequence, position);
    float size = 1.0f;
    if (kernel_case->style == CASE_EXTREME && range == CASE_ROWS_DIFFER) {
        size = f32_power_of_two((int)(case_random_below(&random, 3) - 1) * SIZE_EXPONENT);
        size = case_random_below(&random, 8) == 0 ? 0.0f : size;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = style_value(kernel_case->style, &random) * size;
    }
}

static struct tensor make_tensor(const struct kernel_case *kernel_case, enum dtype dtype, int64_t outer,
                                 int64_t width, size_t operand) {
    struct tensor tensor = {.dtype = dtype, .rank = 1, .shape = {kernel_case->plan.row_count}};
    if (outer > 0) {
        tensor.shape[tensor.rank++] = outer;
    }
    if (width > 0) {
        tensor.shape[tensor.rank++] = width;
    }
    tensor.data = case_operand_device(kernel_case, operand);
    return tensor;
}

static int64_t axis(int64_t length) {
    return length > 0 ? length : 1;
}

enum status case_add_rows(struct kernel_case *kernel_case, unsigned id, enum dtype dtype,
                          enum case_range range, int64_t outer, int64_t width, struct case_tensor *out) {
    int64_t elements = axis(outer) * axis(width);
    size_t row_bytes = (size_t)elements * dtype_bytes(dtype);
    TRY(kernel_case_add_operand(kernel_case, (size_t)kernel_case->plan.row_count * row_bytes, CASE_ALIGNED,
                                &out->operand));
    float *values = malloc((size_t)elements * sizeof *values);
    CHECK_MEMORY(values);
    unsigned char *image = case_operand_image(kernel_case, out->operand);
    for (int64_t row = 0; row < kernel_case->plan.row_count; row++) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(&kernel_case->plan, row, &position);
        case_row_values(kernel_case, id, segment->sequence, position, range, values, elements);
        elements_encode(dtype, values, elements, image + (size_t)row * row_bytes);
    }
    free(values);
    out->tensor = make_tensor(kernel_case, dtype, outer, width, out->operand);
    return STATUS_OK;
}

enum status case_add_source(struct kernel_case *kernel_case, unsigned id, enum dtype dtype,
                            enum case_range range, int64_t count, int64_t outer, int64_t width,
                            struct tensor *out) {
    int64_t elements = axis(outer) * axis(width);
    size_t row_bytes = (size_t)elements * dtype_bytes(dtype);
    size_t operand;
    TRY(kernel_case_add_operand(kernel_case, (size_t)count * row_bytes, CASE_ALIGNED, &operand));
    float *values = malloc((size_t)elements * sizeof *values);
    CHECK_MEMORY(values);
    unsigned char *image = case_operand_image(kernel_case, operand);
    for (int64_t row = 0; row < count; row++) {
        case_row_values(kernel_case, id, 0, (int32_t)row, range, values, elements);
        elements_encode(dtype, values, elements, image + (size_t)row * row_bytes);
    }
    free(values);
    *out = make_tensor(kernel_case, dtype, outer, width, operand);
    out->shape[0] = count;
    return STATUS_OK;
}

enum status case_add_picks(struct kernel_case *kernel_case, unsigned id, int64_t first, int64_t count,
                           const int32_t **out) {
    int64_t rows = kernel_case->plan.row_count;
    int32_t *picks = ARENA_NEW(&kernel_case->arena, int32_t, (size_t)rows);
    CHECK_MEMORY(picks);
    for (int64_t row = 0; row < rows; row++) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(&kernel_case->plan, row, &position);
        struct case_random random = case_random_start(kernel_case->seed, id, segment->sequence, position);
        picks[row] = (int32_t)(first + case_random_below(&random, count));
    }
    return case_add_integers(kernel_case, picks, rows, out);
}

enum status case_mark_result(struct kernel_case *kernel_case, const struct case_tensor *tensor,
                             const struct tolerance *tolerance) {
    size_t row_bytes = (size_t)tensor_row_elements(&tensor->tensor) * dtype_bytes(tensor->tensor.dtype);
    TRY(kernel_case_add_output(kernel_case, tensor->operand, tensor->tensor.dtype, row_bytes, tolerance));
    return STATUS_OK;
}

enum status case_add_result(struct kernel_case *kernel_case, enum dtype dtype, int64_t outer, int64_t width,
                            const struct tolerance *tolerance, struct tensor *out) {
    struct case_tensor result = {0};
    size_t row_bytes = (size_t)(axis(outer) * axis(width)) * dtype_bytes(dtype);
    TRY(kernel_case_add_operand(kernel_case, (size_t)kernel_case->plan.row_count * row_bytes, CASE_ALIGNED,
                                &result.operand));
    result.tensor = make_tensor(kernel_case, dtype, outer, width, result.operand);
    TRY(case_mark_result(kernel_case, &result, tolerance));
    *out = result.tensor;
    return STATUS_OK;
}

enum status case_add_integers(struct kernel_case *kernel_case, const int32_t *values, int64_t count,
                              const int32_t **out) {
    /* One integer in front, so that none of the others starts a cache line. */
    size_t operand;
    size_t bytes = ((size_t)count + 1) * sizeof *values;
    TRY(kernel_case_add_operand(kernel_case, bytes, CASE_ALIGNED, &operand));
    int32_t *image = case_operand_image(kernel_case, operand);
    memcpy(image + 1, values, (size_t)count * sizeof *values);
    *out = (const int32_t *)case_operand_device(kernel_case, operand) + 1;
    return STATUS_OK;
}

int64_t case_slot(const struct kernel_case *kernel_case, int segment) {
    return (segment + 1) % (kernel_case->plan.segment_count + 1);
}

static enum status fill_batch(struct kernel_case *kernel_case, int32_t *rows, int32_t *segments) {
    const struct case_plan *plan = &kernel_case->plan;
    struct batch_view *batch = &kernel_case->batch;
    int64_t count = plan->row_count;
    int64_t segment_count = plan->segment_count;
    int64_t row = 0;
    for (int s = 0; s < plan->segment_count; s++) {
        const struct case_segment *segment = &plan->segments[s];
        segments[s] = (int32_t)case_slot(kernel_case, s);
        segments[segment_count + s] = (int32_t)row;
        segments[2 * segment_count + s] = segment->first_position;
        segments[3 * segment_count + s] = segment->row_count;
        for (int32_t i = 0; i < segment->row_count; i++, row++) {
            struct case_random random =
                case_random_start(kernel_case->seed, 0, segment->sequence, segment->first_position + i);
            rows[row] = (int32_t)case_random_below(&random, 1 << 15);
            rows[count + row] = segment->first_position + i;
            rows[2 * count + row] = s;
        }
    }
    TRY(case_add_integers(kernel_case, rows, count, &batch->token_ids));
    TRY(case_add_integers(kernel_case, rows + count, count, &batch->positions));
    TRY(case_add_integers(kernel_case, rows + 2 * count, count, &batch->row_segment));
    TRY(case_add_integers(kernel_case, segments, segment_count, &batch->segment_slot));
    TRY(case_add_integers(kernel_case, segments + segment_count, segment_count, &batch->segment_first_row));
    TRY(case_add_integers(kernel_case, segments + 2 * segment_count, segment_count,
                          &batch->segment_first_position));
    TRY(case_add_integers(kernel_case, segments + 3 * segment_count, segment_count,
                          &batch->segment_row_count));
    batch->row_count = count;
    batch->segment_count = segment_count;
    return STATUS_OK;
}

enum status case_add_batch(struct kernel_case *kernel_case) {
    enum { ROW_ARRAYS = 3, SEGMENT_ARRAYS = 4 };
    const struct case_plan *plan = &kernel_case->plan;
    int32_t *rows = ARENA_NEW(&kernel_case->arena, int32_t, (size_t)plan->row_count * ROW_ARRAYS);
    int32_t *segments = ARENA_NEW(&kernel_case->arena, int32_t, (size_t)plan->segment_count * SEGMENT_ARRAYS);
    CHECK_MEMORY(rows);
    CHECK_MEMORY(segments);
    TRY(fill_batch(kernel_case, rows, segments));
    return STATUS_OK;
}

/* Weights are never all zero, and CASE_LARGE speaks of scales. */
static enum case_style weight_style(const struct kernel_case *kernel_case) {
    enum case_style style = kernel_case->style;
    return style == CASE_ZERO || style == CASE_LARGE ? CASE_NORMAL : style;
}

enum status case_add_plain(struct kernel_case *kernel_case, unsigned id, enum dtype dtype, int64_t rows,
                           int64_t columns, float size, struct weight *out) {
    size_t operand;
    size_t row_bytes = (size_t)columns * dtype_bytes(dtype);
    TRY(kernel_case_add_operand(kernel_case, (size_t)rows * row_bytes, CASE_ODD, &operand));
    float *values = malloc(((size_t)columns + 1) * sizeof *values);
    CHECK_MEMORY(values);
    struct case_random random = case_random_start(kernel_case->seed, id, 0, 0);
    unsigned char *image = case_operand_image(kernel_case, operand);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < columns; i++) {
            values[i] = style_value(weight_style(kernel_case), &random) * size;
        }
        elements_encode(dtype, values, columns, image + (size_t)row * row_bytes);
    }
    free(values);
    *out = (struct weight){.name = "weight",
                           .format = WEIGHT_PLAIN,
                           .dtype = dtype,
                           .rows = rows,
                           .columns = columns,
                           .data = case_operand_device(kernel_case, operand)};
    return STATUS_OK;
}

/* A code from 8 drawn bits. */
static uint8_t fp8_code(enum case_style style, uint8_t drawn) {
    enum { NOT_A_NUMBER = 0x7F, SMALL_CODES = 8 };
    if (style == CASE_INTEGERS) {
        return e4m3_encode((float)(drawn % (2 * INTEGER_LIMIT + 1) - INTEGER_LIMIT));
    }
    if (style == CASE_LARGE) {
        return (uint8_t)(drawn & (0x80 | (SMALL_CODES - 1)));
    }
    return (drawn & NOT_A_NUMBER) == NOT_A_NUMBER ? (uint8_t)(drawn ^ 1) : drawn;
}

/* Two codes; of CASE_LARGE 0 and 0.5 of both signs. */
static uint8_t fp4_codes(enum case_style style, uint8_t drawn) {
    return style == CASE_LARGE ? (uint8_t)(drawn & 0x99) : drawn;
}

static void fill_codes(const struct kernel_case *kernel_case, unsigned char *codes, size_t bytes,
                       struct case_random *random) {
    bool is_fp8 = kernel_case->shape->format == WEIGHT_FP8;
    uint64_t drawn = 0;
    for (size_t i = 0; i < bytes; i++, drawn >>= 8) {
        drawn = i % sizeof drawn == 0 ? case_random_next(random) : drawn;
        codes[i] = is_fp8 ? fp8_code(kernel_case->style, (uint8_t)drawn)
                          : fp4_codes(kernel_case->style, (uint8_t)drawn);
    }
}

/* Scale bytes around 1; extremes go down to the smallest there is. */
static uint8_t scale_byte(enum case_style style, bool is_first, struct case_random *random) {
    static const uint8_t extremes[] = {0, 1, 60, 110, 126, 127, 128, 134};
    if (style == CASE_LARGE) {
        return 254;
    }
    if (style == CASE_EXTREME && !is_first) {
        return extremes[case_random_below(random, sizeof extremes)];
    }
    return (uint8_t)(SCALE_BYTE_OF_ONE - 1 + case_random_below(random, 3));
}

/*
 * The first scale of a row is always an ordinary one: 2^-127 makes codes subnormal, which bf16 dot products
 * may take for zero, and then nothing else may be left of a row.
 */
static void fill_scales(const struct kernel_case *kernel_case, const struct weight *weight,
                        unsigned char *scales, struct case_random *random) {
    int64_t block = weight->format == WEIGHT_FP8 ? WEIGHT_FP8_BLOCK : WEIGHT_FP4_GROUP;
    size_t per_row = (size_t)((weight->columns + block - 1) / block);
    size_t step = dtype_bytes(weight->scale_dtype);
    for (size_t i = 0; i < weight_scale_bytes(weight) / step; i++) {
        uint8_t byte = scale_byte(kernel_case->style, i % per_row == 0, random);
        float value = e8m0_decode(byte);
        if (weight->scale_dtype == DTYPE_F8_E8M0) {
            scales[i] = byte;
        } else {
            memcpy(scales + i * step, &value, sizeof value);
        }
    }
}

enum status case_add_weight(struct kernel_case *kernel_case, unsigned id, int64_t rows, int64_t columns,
                            struct weight *out) {
    const struct case_shape *shape = kernel_case->shape;
    if (shape->format == WEIGHT_PLAIN) {
        TRY(case_add_plain(kernel_case, id, shape->weight_dtype, rows, columns, 1.0f, out));
        return STATUS_OK;
    }
    *out = (struct weight){.name = "weight",
                           .format = shape->format,
                           .rows = rows,
                           .columns = columns,
                           .scale_dtype = shape->scale_dtype};
    size_t data;
    size_t scales;
    TRY(kernel_case_add_operand(kernel_case, weight_data_bytes(out), CASE_ODD, &data));
    TRY(kernel_case_add_operand(kernel_case, weight_scale_bytes(out), CASE_ODD, &scales));
    struct case_random random = case_random_start(kernel_case->seed, id, 0, 0);
    fill_codes(kernel_case, case_operand_image(kernel_case, data), weight_data_bytes(out), &random);
    fill_scales(kernel_case, out, case_operand_image(kernel_case, scales), &random);
    out->data = case_operand_device(kernel_case, data);
    out->scales = case_operand_device(kernel_case, scales);
    return STATUS_OK;
}

static enum status add_ring(struct kernel_case *kernel_case, struct row_layout layout, int64_t rows_per_slot,
                            struct state_rows *out, size_t *operand) {
    *out = (struct state_rows){.layout = layout,
                               .row_bytes = row_layout_bytes(&layout),
                               .rows_per_slot = rows_per_slot,
                               .slot_count = kernel_case->plan.segment_count + 1};
    size_t bytes = (size_t)(out->slot_count * rows_per_slot) * out->row_bytes;
    TRY(kernel_case_add_operand(kernel_case, bytes, CASE_ALIGNED, operand));
    out->memory = case_operand_device(kernel_case, *operand);
    return STATUS_OK;
}

/* Encodes one row at `stored`. */
static enum status encode_values(struct kernel_case *kernel_case, const struct row_layout *layout,
                                 unsigned id, int32_t sequence, int32_t position, unsigned char *stored) {
    float *values = malloc((size_t)layout->width * sizeof *values);
    CHECK_MEMORY(values);
    case_row_values(kernel_case, id, sequence, position, CASE_SAME_SIZE, values, layout->width);
    row_encode(layout, values, stored);
    free(values);
    return STATUS_OK;
}

enum status case_put_row(struct kernel_case *kernel_case, const struct state_rows *state, size_t operand,
                         int64_t row, unsigned id, int32_t sequence, int32_t position) {
    unsigned char *image = case_operand_image(kernel_case, operand);
    image += (size_t)row * state->row_bytes;
    TRY(encode_values(kernel_case, &state->layout, id, sequence, position, image));
    return STATUS_OK;
}

/* The positions in front of a segment, as far as the ring and `history` reach. */
static enum status fill_ring(struct kernel_case *kernel_case, const struct state_rows *ring, size_t operand,
                             unsigned id, int segment_index, int64_t history) {
    const struct case_segment *segment = &kernel_case->plan.segments[segment_index];
    int64_t reach = history < ring->rows_per_slot ? history : ring->rows_per_slot;
    int64_t first = segment->first_position - reach;
    for (int64_t position = first < 0 ? 0 : first; position < segment->first_position; position++) {
        int64_t row = case_slot(kernel_case, segment_index) * ring->rows_per_slot;
        TRY(case_put_row(kernel_case, ring, operand, row + position % ring->rows_per_slot, id,
                         segment->sequence, (int32_t)position));
    }
    return STATUS_OK;
}

enum status case_add_chunk(struct kernel_case *kernel_case, unsigned id, struct row_layout layout,
                           int64_t ring_rows, int64_t history, struct chunk_rows *out, size_t *ring_operand) {
    const struct case_plan *plan = &kernel_case->plan;
    size_t ring;
    size_t rows;
    TRY(add_ring(kernel_case, layout, ring_rows, &out->ring, &ring));
    TRY(kernel_case_add_operand(kernel_case, (size_t)plan->row_count * out->ring.row_bytes, CASE_ALIGNED,
                                &rows));
    for (int s = 0; s < plan->segment_count; s++) {
        TRY(fill_ring(kernel_case, &out->ring, ring, id, s, history));
    }
    unsigned char *image = case_operand_image(kernel_case, rows);
    for (int64_t row = 0; row < plan->row_count; row++, image += out->ring.row_bytes) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(plan, row, &position);
        TRY(encode_values(kernel_case, &layout, id, segment->sequence, position, image));
    }
    out->rows = case_operand_device(kernel_case, rows);
    if (ring_operand != NULL) {
        *ring_operand = ring;
    }
    return STATUS_OK;
}

void *case_keep(struct kernel_case *kernel_case, const void *bytes, size_t count) {
    void *kept = arena_alloc(&kernel_case->arena, 1, count, _Alignof(max_align_t));
    if (kept != NULL) {
        memcpy(kept, bytes, count);
    }
    return kept;
}
