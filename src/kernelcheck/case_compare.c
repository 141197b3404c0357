/* Unpacks outputs to floats, or finds the first byte that differs. */
#include "kernelcheck/case_compare.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/elements.h"
#include "tensor/number_format.h"

static int64_t output_columns(const struct case_output *output) {
    return output->is_rows ? output->layout.width : (int64_t)(output->row_bytes / dtype_bytes(output->dtype));
}

/* One row of an output as floats; bytes and integers as numbers. */
static void decode_row(const struct case_output *output, const unsigned char *bytes, float *out) {
    int64_t columns = output_columns(output);
    if (output->is_rows) {
        row_decode(&output->layout, bytes, out);
    } else if (output->dtype == DTYPE_I32) {
        for (int64_t i = 0; i < columns; i++) {
            out[i] = (float)elements_integer(DTYPE_I32, bytes, i);
        }
    } else if (output->dtype == DTYPE_U8) {
        for (int64_t i = 0; i < columns; i++) {
            out[i] = (float)bytes[i];
        }
    } else {
        elements_decode(output->dtype, bytes, columns, out);
    }
}

/* Offset of an output in a packed row. */
static size_t packed_offset(const struct kernel_case *kernel_case, int index) {
    size_t offset = 0;
    for (int o = 0; o < index; o++) {
        offset += 1 + kernel_case->outputs[o].row_bytes;
    }
    return offset;
}

/* Room for an output's rows twice, and which are there. */
struct unpacked {
    float *got;
    float *wanted;
    bool *is_present;
};

static void unpack(const struct kernel_case *kernel_case, int index, const unsigned char *got,
                   const unsigned char *wanted, struct unpacked *out) {
    const struct case_output *output = &kernel_case->outputs[index];
    int64_t columns = output_columns(output);
    size_t row_bytes = kernel_case_packed_bytes(kernel_case);
    size_t offset = packed_offset(kernel_case, index);
    for (int64_t row = 0; row < kernel_case->plan.row_count; row++) {
        size_t at = (size_t)row * row_bytes + offset;
        out->is_present[row] = got[at] != 0;
        if (out->is_present[row]) {
            decode_row(output, got + at + 1, out->got + row * columns);
            decode_row(output, wanted + at + 1, out->wanted + row * columns);
        }
    }
}

static enum status compare_output(const struct kernel_case *kernel_case, int index, const unsigned char *got,
                                  const unsigned char *wanted, bool *is_near, struct difference *place) {
    enum status status = STATUS_OK;
    const struct case_output *output = &kernel_case->outputs[index];
    int64_t columns = output_columns(output);
    size_t rows = (size_t)kernel_case->plan.row_count;
    size_t elements = rows * (size_t)columns;
    struct unpacked unpacked = {calloc(elements + 1, sizeof(float)), calloc(elements + 1, sizeof(float)),
                                calloc(rows + 1, sizeof(bool))};
    CHECK_MEMORY_GOTO(unpacked.got);
    CHECK_MEMORY_GOTO(unpacked.wanted);
    CHECK_MEMORY_GOTO(unpacked.is_present);
    unpack(kernel_case, index, got, wanted, &unpacked);
    struct comparison comparison = {unpacked.got,  unpacked.wanted, unpacked.is_present,
                                    (int64_t)rows, columns,         output->dtype};
    bool by_value = kernel_case->style == CASE_INTEGERS && kernel_case->family->is_exact_by_value;
    *is_near = tolerance_holds(output->tolerance, by_value, &comparison, place);
fail:
    free(unpacked.got);
    free(unpacked.wanted);
    free(unpacked.is_present);
    return status;
}

enum status case_compare_near(const struct kernel_case *kernel_case, const unsigned char *got,
                              const unsigned char *wanted, bool *is_near, struct case_difference *out) {
    *is_near = true;
    for (int o = 0; o < kernel_case->output_count && *is_near; o++) {
        out->output = o;
        TRY(compare_output(kernel_case, o, got, wanted, is_near, &out->place));
    }
    return STATUS_OK;
}

/* The first element of an output's row whose decoded value differs; 0 if only padding does. */
static enum status find_element(const struct case_output *output, const unsigned char *got,
                                const unsigned char *wanted, struct difference *out) {
    size_t columns = (size_t)output_columns(output);
    float *values = calloc(2 * columns + 1, sizeof *values);
    CHECK_MEMORY(values);
    decode_row(output, got, values);
    decode_row(output, wanted, values + columns);
    size_t at = 0;
    while (at + 1 < columns && f32_bits(values[at]) == f32_bits(values[columns + at])) {
        at++;
    }
    out->element = (int64_t)at;
    out->got = (double)values[at];
    out->wanted = (double)values[columns + at];
    free(values);
    return STATUS_OK;
}

/* Compares one row of all outputs. */
static enum status compare_row(const struct kernel_case *kernel_case, const unsigned char *got,
                               const unsigned char *wanted, bool *is_same, struct case_difference *out) {
    for (int o = 0; o < kernel_case->output_count; o++) {
        const struct case_output *output = &kernel_case->outputs[o];
        bool is_in_both = *got != 0 && *wanted != 0;
        if (is_in_both && memcmp(got + 1, wanted + 1, output->row_bytes) != 0) {
            *is_same = false;
            out->output = o;
            TRY(find_element(output, got + 1, wanted + 1, &out->place));
            return STATUS_OK;
        }
        got += 1 + output->row_bytes;
        wanted += 1 + output->row_bytes;
    }
    return STATUS_OK;
}

enum status case_compare_bytes(const struct kernel_case *kernel_case, const unsigned char *wanted,
                               const struct kernel_case *other, const unsigned char *got, bool *is_same,
                               struct case_difference *out) {
    size_t row_bytes = kernel_case_packed_bytes(kernel_case);
    *is_same = true;
    for (int64_t row = 0; row < other->plan.row_count && *is_same; row++) {
        int32_t position;
        const struct case_segment *segment = case_plan_row(&other->plan, row, &position);
        int64_t same_row = case_plan_find(&kernel_case->plan, segment->sequence, position);
        if (same_row >= 0) {
            out->place = (struct difference){.row = same_row};
            TRY(compare_row(kernel_case, got + (size_t)row * row_bytes, wanted + (size_t)same_row * row_bytes,
                            is_same, out));
        }
    }
    return STATUS_OK;
}
