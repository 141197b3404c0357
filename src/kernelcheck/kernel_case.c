/* Operands with canaries, and what a run left in them. */
#include "kernelcheck/kernel_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcheck/case_random.h"
#include "kernelcheck/case_values.h"

enum { CANARY_BYTES = 64, ARENA_BLOCK_BYTES = 1 << 16, FIRST_CAPACITY = 16 };

const char *case_style_name(enum case_style style) {
    static const char *const names[CASE_STYLE_COUNT] = {"normal", "integers", "extreme", "zero", "large"};
    return names[style];
}

enum status kernel_case_init(struct kernel_case *out, struct case_place place,
                             const struct case_family *family, enum op_id op, const struct case_shape *shape,
                             enum numerics numerics, enum case_style style, uint64_t seed,
                             const struct case_plan *plan) {
    *out = (struct kernel_case){.family = family,
                                .shape = shape,
                                .plan = *plan,
                                .numerics = numerics,
                                .style = style,
                                .seed = seed + (uint64_t)op,
                                .place = place};
    arena_init(&out->arena, ARENA_BLOCK_BYTES);
    TRY(case_add_batch(out));
    TRY(family->build(out));
    return STATUS_OK;
}

void kernel_case_deinit(struct kernel_case *kernel_case) {
    for (size_t i = 0; i < kernel_case->operand_count; i++) {
        device_memory_free(kernel_case->place.device, &kernel_case->operands[i].memory);
        free(kernel_case->operands[i].image);
        free(kernel_case->operands[i].result);
    }
    free(kernel_case->operands);
    arena_deinit(&kernel_case->arena);
    *kernel_case = (struct kernel_case){0};
}

static void append_size(char *text, size_t bytes, const char *name, int64_t size) {
    size_t used = strlen(text);
    if (size != 0) {
        snprintf(text + used, bytes - used, "%s %lld, ", name, (long long)size);
    }
}

void kernel_case_describe(const struct kernel_case *kernel_case, char *text, size_t bytes) {
    static const char *const formats[] = {"plain", "fp8", "fp4"};
    const struct case_shape *shape = kernel_case->shape;
    snprintf(text, bytes, "%s, %s, ", numerics_name(kernel_case->numerics),
             case_style_name(kernel_case->style));
    append_size(text, bytes, "rows", kernel_case->plan.row_count);
    append_size(text, bytes, "width", shape->width);
    append_size(text, bytes, "outer", shape->outer);
    append_size(text, bytes, "inner", shape->inner);
    append_size(text, bytes, "picks", shape->picks);
    append_size(text, bytes, "experts", shape->experts);
    append_size(text, bytes, "limit", shape->limit);
    append_size(text, bytes, "window", shape->window);
    append_size(text, bytes, "ratio", shape->ratio);
    append_size(text, bytes, "page rows", shape->page_rows);
    append_size(text, bytes, "plain", shape->plain);
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "weights %s %s%s%s%s", formats[shape->format],
             dtype_name(shape->weight_dtype), shape->is_variant ? ", variant" : "",
             shape->is_in_place ? ", in place" : "", shape->is_f32 ? ", f32" : "");
}

/* Operands end where the guard device's memory ends, so that reading past them is noticed. */
static bool has_back_canary(const struct kernel_case *kernel_case) {
    return device_reads_host_memory(kernel_case->place.device);
}

static enum status grow(struct kernel_case *kernel_case) {
    if (kernel_case->operand_count < kernel_case->operand_capacity) {
        return STATUS_OK;
    }
    size_t capacity = kernel_case->operand_capacity == 0 ? FIRST_CAPACITY : kernel_case->operand_capacity * 2;
    struct case_operand *grown = realloc(kernel_case->operands, capacity * sizeof *grown);
    CHECK_MEMORY(grown);
    kernel_case->operands = grown;
    kernel_case->operand_capacity = capacity;
    return STATUS_OK;
}

enum status kernel_case_add_operand(struct kernel_case *kernel_case, size_t bytes,
                                    enum case_alignment alignment, size_t *index) {
    TRY(grow(kernel_case));
    struct case_operand operand = {.offset = CANARY_BYTES, .bytes = bytes};
    size_t tail = (CANARY_BYTES - bytes % CANARY_BYTES) % CANARY_BYTES;
    if (alignment == CASE_ODD) {
        operand.offset += tail % 2 == 1 ? tail : tail + 1;
    }
    operand.total = operand.offset + bytes + (has_back_canary(kernel_case) ? CANARY_BYTES : 0);
    *index = kernel_case->operand_count;
    operand.image = malloc(operand.total);
    kernel_case->operands[kernel_case->operand_count++] = operand;
    CHECK_MEMORY(operand.image);
    TRY(device_memory_alloc(kernel_case->place.device, operand.total, &kernel_case->operands[*index].memory));
    /* All ones are a NaN in every float format: what is read around the data spoils a result. */
    memset(operand.image, 0xFF, operand.total);
    return STATUS_OK;
}

void *case_operand_image(const struct kernel_case *kernel_case, size_t index) {
    return kernel_case->operands[index].image + kernel_case->operands[index].offset;
}

void *case_operand_device(const struct kernel_case *kernel_case, size_t index) {
    return (unsigned char *)kernel_case->operands[index].memory + kernel_case->operands[index].offset;
}

static enum status add_output(struct kernel_case *kernel_case, struct case_output output, bool is_dense) {
    int64_t rows = kernel_case->plan.row_count;
    output.offsets = ARENA_NEW(&kernel_case->arena, int64_t, (size_t)rows);
    CHECK_MEMORY(output.offsets);
    for (int64_t row = 0; row < rows; row++) {
        output.offsets[row] = is_dense ? row * (int64_t)output.row_bytes : -1;
    }
    kernel_case->outputs[kernel_case->output_count++] = output;
    return STATUS_OK;
}

enum status kernel_case_add_output(struct kernel_case *kernel_case, size_t operand, enum dtype dtype,
                                   size_t row_bytes, const struct tolerance *tolerance) {
    struct case_output output = {
        .operand = operand, .dtype = dtype, .row_bytes = row_bytes, .tolerance = tolerance};
    TRY(add_output(kernel_case, output, true));
    return STATUS_OK;
}

enum status kernel_case_add_state_output(struct kernel_case *kernel_case, size_t operand,
                                         const struct row_layout *layout, const struct tolerance *tolerance,
                                         int64_t **offsets) {
    struct case_output output = {.operand = operand,
                                 .is_rows = true,
                                 .dtype = DTYPE_F32,
                                 .layout = *layout,
                                 .row_bytes = row_layout_bytes(layout),
                                 .tolerance = tolerance};
    TRY(add_output(kernel_case, output, false));
    *offsets = kernel_case->outputs[kernel_case->output_count - 1].offsets;
    return STATUS_OK;
}

enum status kernel_case_upload(struct kernel_case *kernel_case) {
    for (size_t i = 0; i < kernel_case->operand_count; i++) {
        struct case_operand *operand = &kernel_case->operands[i];
        if (operand->is_current) {
            continue;
        }
        operand->is_current = true;
        TRY(stream_copy_to_device(kernel_case->place.stream, operand->memory, operand->image,
                                  operand->total));
    }
    TRY(stream_synchronize(kernel_case->place.stream));
    return STATUS_OK;
}

enum status kernel_case_download(struct kernel_case *kernel_case) {
    for (size_t i = 0; i < kernel_case->operand_count; i++) {
        struct case_operand *operand = &kernel_case->operands[i];
        if (operand->result == NULL) {
            operand->result = malloc(operand->total);
            CHECK_MEMORY(operand->result);
        }
        TRY(stream_copy_to_host(kernel_case->place.stream, operand->result, operand->memory, operand->total));
    }
    TRY(stream_synchronize(kernel_case->place.stream));
    for (size_t i = 0; i < kernel_case->operand_count; i++) {
        struct case_operand *operand = &kernel_case->operands[i];
        operand->is_current = memcmp(operand->result, operand->image, operand->total) == 0;
    }
    return STATUS_OK;
}

size_t kernel_case_packed_bytes(const struct kernel_case *kernel_case) {
    size_t bytes = 0;
    for (int o = 0; o < kernel_case->output_count; o++) {
        bytes += 1 + kernel_case->outputs[o].row_bytes;
    }
    return bytes;
}

void kernel_case_pack(const struct kernel_case *kernel_case, unsigned char *packed) {
    for (int64_t row = 0; row < kernel_case->plan.row_count; row++) {
        for (int o = 0; o < kernel_case->output_count; o++) {
            const struct case_output *output = &kernel_case->outputs[o];
            const struct case_operand *operand = &kernel_case->operands[output->operand];
            *packed++ = output->offsets[row] >= 0;
            if (output->offsets[row] >= 0) {
                memcpy(packed, operand->result + operand->offset + output->offsets[row], output->row_bytes);
            } else {
                memset(packed, 0, output->row_bytes);
            }
            packed += output->row_bytes;
        }
    }
}

/* Puts what the operand held before over the rows that may change: what still differs is damage. */
static void restore_outputs(const struct kernel_case *kernel_case, size_t index, unsigned char *bytes) {
    const struct case_operand *operand = &kernel_case->operands[index];
    for (int o = 0; o < kernel_case->output_count; o++) {
        const struct case_output *output = &kernel_case->outputs[o];
        for (int64_t row = 0; output->operand == index && row < kernel_case->plan.row_count; row++) {
            if (output->offsets[row] >= 0) {
                size_t at = operand->offset + (size_t)output->offsets[row];
                memcpy(bytes + at, operand->image + at, output->row_bytes);
            }
        }
    }
}

bool kernel_case_find_damage(const struct kernel_case *kernel_case, size_t *operand, int64_t *offset) {
    for (size_t i = 0; i < kernel_case->operand_count; i++) {
        const struct case_operand *checked = &kernel_case->operands[i];
        restore_outputs(kernel_case, i, checked->result);
        if (memcmp(checked->result, checked->image, checked->total) == 0) {
            continue;
        }
        size_t at = 0;
        while (checked->result[at] == checked->image[at]) {
            at++;
        }
        *operand = i;
        *offset = (int64_t)at - (int64_t)checked->offset;
        return true;
    }
    return false;
}
