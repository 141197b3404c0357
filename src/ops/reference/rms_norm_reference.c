/* RMS norm, row by row. */
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "ops/rms_norm.h"
#include "ops/row_index.h"

static void norm_row(const void *context, int64_t row, void *workspace) {
    const struct rms_norm_args *args = context;
    int64_t width = args->x.shape[args->x.rank - 1];
    int64_t source = row;
    if (args->rows != NULL) {
        source = row_index_part(args->rows, row, tensor_row_elements(&args->x) / width);
    }
    float *values = workspace;
    float *weight = args->weight == NULL ? NULL : values + width;
    if (weight != NULL) {
        weight_decode_row(args->weight, 0, weight);
    }
    reference_read(&args->x, source * width, width, values);
    reference_rms_norm(values, weight, width, args->epsilon);
    reference_write(&args->out, row * width, width, values);
}

static size_t row_workspace(const struct rms_norm_args *args) {
    return kernel_float_bytes(2 * args->x.shape[args->x.rank - 1]);
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    return thread_count * row_workspace(arguments);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct rms_norm_args *args = arguments;
    struct tensor out = tensor_as_matrix(&args->out);
    kernel_for_each_item(env, out.shape[0], norm_row, args, env->workspace, row_workspace(args));
    return STATUS_OK;
}

const struct op_entry rms_norm_reference = {
    .op = OP_RMS_NORM,
    .name = "rms_norm_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
