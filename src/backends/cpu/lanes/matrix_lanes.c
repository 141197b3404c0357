/*
 * Matrix operations on fp32 lanes, for every weight format and both numerics modes.
 *
 * Sixteen weight rows are decoded to floats at a time (they stay in the L2 cache) and meet the inputs four at
 * a time. For each (input, row) lane i mod 16 sums in order of the columns, then the lanes are summed by the
 * tree.
 */
#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/quantize_lanes.h"
#include "backends/cpu/lanes/weight_rows_lanes.h"
#include "backends/cpu/matrix/matrix_kernel.h"
#include "backends/cpu/matrix/matrix_store_lanes.h"

enum { TILE_INPUTS = 4 };

/* Floats of a packed or decoded row: whole vectors. */
static int64_t stride_of(int64_t columns) {
    return (columns + LANES - 1) / LANES * LANES;
}

static size_t packed_bytes(int64_t columns) {
    return (size_t)stride_of(columns) * sizeof(float);
}

static void pack(const struct weight *weight, bool rounds, enum dtype dtype, const void *row, void *packed) {
    float *values = packed;
    int64_t columns = weight->columns;
    int64_t whole = columns - columns % LANES;
    if (whole < columns) {
        lanes_store(values + whole, lanes_splat(0.0f));
    }
    if (rounds) {
        lanes_act8_round_row(dtype, row, columns, values);
        return;
    }
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes_store(values + i, lanes_read(dtype, row, i));
    }
    if (whole < columns) {
        lanes_store(values + whole, lanes_read_part(dtype, row, whole, columns - whole));
    }
}

static size_t scratch_bytes(int64_t columns) {
    return MATRIX_SINK_ROWS * packed_bytes(columns);
}

/* Lane sums of one decoded row with four inputs. */
static void multiply_row(const float *row, int64_t stride, const float *inputs, f32x16 sums[TILE_INPUTS]) {
    f32x16 a = {0};
    f32x16 b = {0};
    f32x16 c = {0};
    f32x16 d = {0};
    for (int64_t i = 0; i < stride; i += LANES) {
        f32x16 weight = lanes_load(row + i);
        a += weight * lanes_load(inputs + i);
        b += weight * lanes_load(inputs + stride + i);
        c += weight * lanes_load(inputs + 2 * stride + i);
        d += weight * lanes_load(inputs + 3 * stride + i);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* Lane sums of one decoded row with one input: the same order. */
static f32x16 multiply_row_once(const float *row, int64_t stride, const float *input) {
    f32x16 sum = {0};
    for (int64_t i = 0; i < stride; i += LANES) {
        sum += lanes_load(row + i) * lanes_load(input + i);
    }
    return sum;
}

/* Up to four inputs times up to sixteen decoded rows. */
static void multiply_tile(const float *rows, int64_t row_count, int64_t stride, const float *inputs,
                          int64_t input_count, f32x16 sums[TILE_INPUTS][MATRIX_SINK_ROWS]) {
    for (int64_t r = 0; r < row_count; r++) {
        f32x16 of_row[TILE_INPUTS];
        if (input_count == TILE_INPUTS) {
            multiply_row(rows + r * stride, stride, inputs, of_row);
        }
        for (int64_t m = 0; m < input_count; m++) {
            sums[m][r] = input_count == TILE_INPUTS
                             ? of_row[m]
                             : multiply_row_once(rows + r * stride, stride, inputs + m * stride);
        }
    }
}

static void multiply_rows(const float *rows, int64_t first_row, int64_t row_count, int64_t stride,
                          const float *inputs, int64_t count, const struct matrix_sink *sink) {
    for (int64_t m = 0; m < count; m += TILE_INPUTS) {
        f32x16 sums[TILE_INPUTS][MATRIX_SINK_ROWS] = {{{0}}};
        float values[MATRIX_SINK_ROWS];
        int64_t tile = count - m < TILE_INPUTS ? count - m : TILE_INPUTS;
        multiply_tile(rows, row_count, stride, inputs + m * stride, tile, sums);
        for (int64_t i = 0; i < tile; i++) {
            lanes_store(values, lanes_sum_each(sums[i]));
            sink->take(sink->context, m + i, first_row, row_count, values);
        }
    }
}

static void multiply(const struct weight *weight, int64_t first_row, int64_t row_count, const void *inputs,
                     int64_t count, void *scratch, const struct matrix_sink *sink) {
    int64_t stride = stride_of(weight->columns);
    float *rows = scratch;
    for (int64_t first = 0; first < row_count; first += MATRIX_SINK_ROWS) {
        int64_t block = row_count - first < MATRIX_SINK_ROWS ? row_count - first : MATRIX_SINK_ROWS;
        for (int64_t r = 0; r < block; r++) {
            weight_row_decode_lanes(weight, first_row + first + r, rows + r * stride);
        }
        multiply_rows(rows, first_row + first, block, stride, inputs, count, sink);
    }
}

static const struct matrix_kernel kernel = {
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .multiply = multiply,
    .gate = matrix_gate_lanes,
    .store = matrix_store_lanes,
};

static enum status run_linear_ideal(const struct kernel_env *env, const void *args) {
    return matrix_linear_run(&kernel, false, env, args);
}

static enum status run_linear_native(const struct kernel_env *env, const void *args) {
    return matrix_linear_run(&kernel, true, env, args);
}

static size_t linear_workspace(const void *args, unsigned thread_count) {
    return matrix_linear_workspace(&kernel, args, thread_count);
}

static enum status run_grouped(const struct kernel_env *env, const void *args) {
    return matrix_grouped_linear_run(&kernel, env, args);
}

static size_t grouped_workspace(const void *args, unsigned thread_count) {
    return matrix_grouped_linear_workspace(&kernel, args, thread_count);
}

static enum status run_experts_ideal(const struct kernel_env *env, const void *args) {
    return matrix_moe_experts_run(&kernel, false, env, args);
}

static enum status run_experts_native(const struct kernel_env *env, const void *args) {
    return matrix_moe_experts_run(&kernel, true, env, args);
}

static size_t experts_workspace(const void *args, unsigned thread_count) {
    return matrix_moe_experts_workspace(&kernel, args, thread_count);
}

const struct op_entry LANES_NAME(linear_ideal) = {.op = OP_LINEAR,
                                                  LANES_ENTRY(linear_ideal),
                                                  .modes = OP_MODE_IDEAL,
                                                  .run = run_linear_ideal,
                                                  .workspace_bytes = linear_workspace};

const struct op_entry LANES_NAME(linear_native) = {.op = OP_LINEAR,
                                                   LANES_ENTRY(linear_native),
                                                   .modes = OP_MODE_NATIVE,
                                                   .run = run_linear_native,
                                                   .workspace_bytes = linear_workspace};

const struct op_entry LANES_NAME(grouped_linear) = {.op = OP_GROUPED_LINEAR,
                                                    LANES_ENTRY(grouped_linear),
                                                    .modes = OP_MODE_BOTH,
                                                    .run = run_grouped,
                                                    .workspace_bytes = grouped_workspace};

const struct op_entry LANES_NAME(moe_experts_ideal) = {.op = OP_MOE_EXPERTS,
                                                       LANES_ENTRY(moe_experts_ideal),
                                                       .modes = OP_MODE_IDEAL,
                                                       .run = run_experts_ideal,
                                                       .workspace_bytes = experts_workspace};

const struct op_entry LANES_NAME(moe_experts_native) = {.op = OP_MOE_EXPERTS,
                                                        LANES_ENTRY(moe_experts_native),
                                                        .modes = OP_MODE_NATIVE,
                                                        .run = run_experts_native,
                                                        .workspace_bytes = experts_workspace};
