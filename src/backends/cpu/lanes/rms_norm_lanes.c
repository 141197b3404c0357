/* RMS norm of every row. */
#include "ops/rms_norm.h"

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/norm_math_lanes.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"

static void norm_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct rms_norm_args *args = context;
    int64_t width = args->x.shape[args->x.rank - 1];
    if (args->x.dtype == DTYPE_F32) {
        lanes_norm_row(DTYPE_F32, args->out.data, args->x.data, row * width, width, args->weight,
                       args->epsilon);
    } else {
        lanes_norm_row(DTYPE_BF16, args->out.data, args->x.data, row * width, width, args->weight,
                       args->epsilon);
    }
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct rms_norm_args *args = arguments;
    struct tensor x = tensor_as_matrix(&args->x);
    int64_t row_bytes = 2 * x.shape[1] * (int64_t)dtype_bytes(x.dtype);
    lanes_for_each_row(env, x.shape[0], row_bytes, norm_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(rms_norm) = {
    .op = OP_RMS_NORM, LANES_ENTRY(rms_norm), .modes = OP_MODE_BOTH, .run = run};
