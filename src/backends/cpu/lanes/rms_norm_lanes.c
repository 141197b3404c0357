/* RMS norm of every row. */
#include "ops/rms_norm.h"

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/norm_math_lanes.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "ops/row_index.h"

static void norm_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct rms_norm_args *args = context;
    int64_t width = args->x.shape[args->x.rank - 1];
    int64_t source = row;
    if (args->rows != NULL) {
        source = row_index_part(args->rows, row, tensor_row_elements(&args->x) / width);
    }
    size_t bytes = (size_t)width * dtype_bytes(args->x.dtype);
    char *out = (char *)args->out.data + (size_t)row * bytes;
    const char *x = (const char *)args->x.data + (size_t)source * bytes;
    if (args->x.dtype == DTYPE_F32) {
        lanes_norm_row(DTYPE_F32, out, x, width, args->weight, args->epsilon);
    } else {
        lanes_norm_row(DTYPE_BF16, out, x, width, args->weight, args->epsilon);
    }
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct rms_norm_args *args = arguments;
    struct tensor out = tensor_as_matrix(&args->out);
    int64_t row_bytes = 2 * out.shape[1] * (int64_t)dtype_bytes(out.dtype);
    lanes_for_each_row(env, out.shape[0], row_bytes, norm_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(rms_norm) = {
    .op = OP_RMS_NORM, LANES_ENTRY(rms_norm), .modes = OP_MODE_BOTH, .run = run};
