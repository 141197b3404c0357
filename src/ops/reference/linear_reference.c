/*
 * Matrix times rows: the inputs become floats once (rounded by ACT8 in native numerics, where the weight is
 * quantised), then each weight row is decoded once and multiplied with every input row.
 */
#include "ops/kernel_items.h"
#include "ops/linear.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "tensor/quantize.h"

struct linear_run {
    const struct linear_args *args;
    struct leaf_plan leaves;
    float *inputs; /* (rows, columns) */
    bool rounds_inputs;
};

static void read_input(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct linear_run *run = context;
    int64_t columns = run->args->weight->columns;
    float *values = run->inputs + row * columns;
    reference_read(&run->args->x, row * columns, columns, values);
    if (run->rounds_inputs) {
        act8_round(values, columns, ACT8_LINEAR_BLOCK);
    }
}

static void multiply_weight_row(const void *context, int64_t weight_row, void *workspace) {
    const struct linear_run *run = context;
    const struct linear_args *args = run->args;
    float *decoded = workspace;
    weight_decode_row(args->weight, weight_row, decoded);
    for (int64_t row = 0; row < args->x.shape[0]; row++) {
        int64_t columns = args->weight->columns;
        float value = reference_leaf_dot(&run->leaves, decoded, run->inputs + row * columns);
        reference_write(&args->out, row * args->weight->rows + weight_row, 1, &value);
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    const struct linear_args *args = arguments;
    int64_t columns = args->weight->columns;
    return kernel_float_bytes(args->x.shape[0] * columns) + thread_count * kernel_float_bytes(columns);
}

static enum status run_linear(const struct kernel_env *env, const struct linear_args *args,
                              bool rounds_inputs) {
    int64_t columns = args->weight->columns;
    int64_t rows = args->x.shape[0];
    struct linear_run run = {.args = args, .inputs = env->workspace, .rounds_inputs = rounds_inputs};
    run.leaves = leaf_plan_make(&args->weight->leaves, columns);
    kernel_for_each_item(env, rows, read_input, &run, NULL, 0);
    if (rows > 0) {
        kernel_for_each_item(env, args->weight->rows, multiply_weight_row, &run,
                             (char *)env->workspace + kernel_float_bytes(rows * columns),
                             kernel_float_bytes(columns));
    }
    return STATUS_OK;
}

static enum status run_ideal(const struct kernel_env *env, const void *arguments) {
    return run_linear(env, arguments, false);
}

static enum status run_native(const struct kernel_env *env, const void *arguments) {
    const struct linear_args *args = arguments;
    return run_linear(env, args, args->weight->format != WEIGHT_PLAIN);
}

const struct op_entry linear_ideal_reference = {
    .op = OP_LINEAR,
    .name = "linear_ideal_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_IDEAL,
    .run = run_ideal,
    .workspace_bytes = workspace_bytes,
};
const struct op_entry linear_native_reference = {
    .op = OP_LINEAR,
    .name = "linear_native_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_NATIVE,
    .run = run_native,
    .workspace_bytes = workspace_bytes,
};
