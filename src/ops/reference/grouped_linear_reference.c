/* Each weight row meets the inputs of its own group only. */
#include "ops/grouped_linear.h"
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"

static void multiply_weight_row(const void *context, int64_t weight_row, void *workspace) {
    const struct grouped_linear_args *args = context;
    int64_t columns = args->weight->columns;
    int64_t groups = args->x.shape[1];
    int64_t rank = args->weight->rows / groups;
    int64_t group = weight_row / rank;
    float *decoded = workspace;
    float *input = decoded + columns;
    weight_decode_row(args->weight, weight_row, decoded);
    for (int64_t row = 0; row < args->x.shape[0]; row++) {
        reference_read(&args->x, (row * groups + group) * columns, columns, input);
        float value = (float)reference_dot(decoded, input, columns);
        reference_write(&args->out, row * args->weight->rows + weight_row, 1, &value);
    }
}

static size_t row_workspace(const struct grouped_linear_args *args) {
    return kernel_float_bytes(2 * args->weight->columns);
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    return thread_count * row_workspace(arguments);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct grouped_linear_args *args = arguments;
    kernel_for_each_item(env, args->weight->rows, multiply_weight_row, args, env->workspace,
                         row_workspace(args));
    return STATUS_OK;
}

const struct op_entry grouped_linear_reference = {
    .op = OP_GROUPED_LINEAR,
    .name = "grouped_linear_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
