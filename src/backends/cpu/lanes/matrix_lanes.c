/*
 * Matrix operations on fp32 lanes, for every weight format and both numerics modes.
 *
 * Sixteen weight rows are decoded to floats at a time (they stay in the L2 cache) and meet the inputs four at
 * a time. For each (input, row) and leaf lane i mod 16 sums in order of the columns, then the lanes are
 * summed by the tree. Lanes start at +0.0 and products are rounded before they are added, so that no leaf is
 * -0.0.
 */
#include "backends/cpu/lanes/dot_tile_lanes.h"
#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/quantize_lanes.h"
#include "backends/cpu/lanes/weight_rows_lanes.h"
#include "backends/cpu/matrix/matrix_kernel.h"
#include "backends/cpu/matrix/matrix_store_lanes.h"

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

/* Columns first to end of one decoded row with one input, in the order of a dot tile. */
static float multiply_part(const float *row, const float *input, int64_t first, int64_t end) {
    float lanes[LANES];
    f32_piece sums[PIECE_COUNT];
    for (int p = 0; p < PIECE_COUNT; p++) {
        sums[p] = piece_splat(0.0f);
    }
    for (int64_t i = first; i < end; i += LANES) {
        for (int p = 0; p < PIECE_COUNT; p++) {
            sums[p] += piece_load(row + i + p * PIECE_LANES) * piece_load(input + i + p * PIECE_LANES);
        }
    }
    for (int p = 0; p < PIECE_COUNT; p++) {
        piece_store(lanes + p * PIECE_LANES, sums[p]);
    }
    return lanes_sum(lanes_load(lanes));
}

static float multiply_once(const struct leaf_plan *leaves, const float *row, const float *input) {
    float sums[LEAF_STACK_MAX];
    int depth = 0;
    for (int s = 0; s < leaves->step_count; s++) {
        const struct leaf_step *step = &leaves->steps[s];
        float leaf = multiply_part(row, input, step->first_column, step->end_column);
        depth = leaf_push(sums, depth, leaf, step->merge_count);
    }
    return sums[0];
}

/* Four inputs times four rows: lane j of out[i] is inputs[i] . rows[j]. */
static void multiply_four(const struct leaf_plan *leaves, const float *const *inputs,
                          const float *const *rows, f32x4 *out) {
    f32x4 sums[LEAF_STACK_MAX][DOT_SIDE];
    int depth = 0;
    for (int s = 0; s < leaves->step_count; s++) {
        const struct leaf_step *step = &leaves->steps[s];
        const float *a[DOT_SIDE];
        const float *b[DOT_SIDE];
        for (int i = 0; i < DOT_SIDE; i++) {
            a[i] = inputs[i] + step->first_column;
            b[i] = rows[i] + step->first_column;
        }
        lanes_dot_tile(a, b, stride_of(step->end_column - step->first_column), out);
        for (int merges = step->merge_count; merges > 0; merges--) {
            depth--;
            for (int i = 0; i < DOT_SIDE; i++) {
                out[i] = sums[depth][i] + out[i];
            }
        }
        memcpy(sums[depth++], out, sizeof sums[0]);
    }
}

/* Four inputs times sixteen decoded rows: values[input][row]. Missing ones repeat the last, to be dropped. */
static void multiply_tile(const struct leaf_plan *leaves, const float *rows, int64_t row_count,
                          int64_t stride, const float *inputs, int64_t input_count,
                          float values[DOT_SIDE][MATRIX_SINK_ROWS]) {
    const float *of_inputs[DOT_SIDE];
    for (int64_t m = 0; m < DOT_SIDE; m++) {
        of_inputs[m] = inputs + (m < input_count ? m : input_count - 1) * stride;
    }
    for (int64_t first = 0; first < row_count; first += DOT_SIDE) {
        const float *of_rows[DOT_SIDE];
        f32x4 products[DOT_SIDE];
        for (int64_t r = 0; r < DOT_SIDE; r++) {
            of_rows[r] = rows + (first + r < row_count ? first + r : row_count - 1) * stride;
        }
        multiply_four(leaves, of_inputs, of_rows, products);
        for (int64_t m = 0; m < DOT_SIDE; m++) {
            memcpy(values[m] + first, &products[m], sizeof products[m]);
        }
    }
}

static void multiply_rows(const struct leaf_plan *leaves, const float *rows, int64_t first_row,
                          int64_t row_count, int64_t stride, const float *inputs, int64_t count,
                          const struct matrix_sink *sink) {
    float values[DOT_SIDE][MATRIX_SINK_ROWS];
    if (count == 1) {
        for (int64_t r = 0; r < row_count; r++) {
            values[0][r] = multiply_once(leaves, rows + r * stride, inputs);
        }
        sink->take(sink->context, 0, first_row, row_count, values[0]);
        return;
    }
    for (int64_t m = 0; m < count; m += DOT_SIDE) {
        int64_t tile = count - m < DOT_SIDE ? count - m : DOT_SIDE;
        multiply_tile(leaves, rows, row_count, stride, inputs + m * stride, tile, values);
        for (int64_t i = 0; i < tile; i++) {
            sink->take(sink->context, m + i, first_row, row_count, values[i]);
        }
    }
}

static void multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                     int64_t row_count, const void *inputs, int64_t count, void *scratch,
                     const struct matrix_sink *sink) {
    int64_t stride = stride_of(weight->columns);
    float *rows = scratch;
    for (int64_t first = 0; first < row_count; first += MATRIX_SINK_ROWS) {
        int64_t block = row_count - first < MATRIX_SINK_ROWS ? row_count - first : MATRIX_SINK_ROWS;
        for (int64_t r = 0; r < block; r++) {
            weight_row_decode_lanes(weight, first_row + first + r, rows + r * stride);
        }
        multiply_rows(leaves, rows, first_row + first, block, stride, inputs, count, sink);
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
