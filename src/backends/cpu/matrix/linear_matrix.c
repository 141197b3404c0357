/* Linear maps: inputs are packed once, then blocks of weight rows are shared out. */
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "backends/cpu/matrix/matrix_kernel.h"
#include "ops/kernel_items.h"

struct linear_run {
    const struct matrix_kernel *kernel;
    const struct linear_args *args;
    struct leaf_plan leaves;
    bool rounds;
    char *packed; /* (rows, packed_bytes) */
};

static void pack_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct linear_run *run = context;
    const struct tensor *x = &run->args->x;
    const struct weight *weight = run->args->weight;
    char *packed = run->packed + (size_t)row * run->kernel->packed_bytes(weight->columns);
    const char *from = (const char *)x->data + (size_t)(row * weight->columns) * dtype_bytes(x->dtype);
    run->kernel->pack(weight, run->rounds && weight->format != WEIGHT_PLAIN, x->dtype, from, packed);
}

static void store(const void *context, int64_t input, int64_t first_row, int64_t row_count,
                  const float *values) {
    const struct linear_run *run = context;
    const struct tensor *out = &run->args->out;
    run->kernel->store(out->dtype, out->data, input * run->args->weight->rows + first_row, row_count, values);
}

static void multiply_block(const void *context, int64_t block, void *workspace) {
    const struct linear_run *run = context;
    const struct weight *weight = run->args->weight;
    run->kernel->multiply(weight, &run->leaves, block * MATRIX_BLOCK_ROWS,
                          matrix_block_rows(weight->rows, block), run->packed, run->args->x.shape[0],
                          workspace, &(struct matrix_sink){store, run});
}

static size_t packed_bytes(const struct matrix_kernel *kernel, const struct linear_args *args) {
    return (size_t)args->x.shape[0] * kernel->packed_bytes(args->weight->columns);
}

size_t matrix_linear_workspace(const struct matrix_kernel *kernel, const struct linear_args *args,
                               unsigned thread_count) {
    return packed_bytes(kernel, args) + thread_count * kernel->scratch_bytes(args->weight->columns);
}

enum status matrix_linear_run(const struct matrix_kernel *kernel, bool rounds, const struct kernel_env *env,
                              const struct linear_args *args) {
    int64_t rows = args->x.shape[0];
    struct linear_run run = {.kernel = kernel, .args = args, .rounds = rounds, .packed = env->workspace};
    run.leaves = matrix_leaves(args->weight);
    lanes_for_each_row(env, rows, MATRIX_PACK_BYTES * args->weight->columns, pack_row, &run, NULL, 0);
    if (rows > 0) {
        kernel_for_each_item(env, matrix_block_count(args->weight->rows), multiply_block, &run,
                             run.packed + packed_bytes(kernel, args),
                             kernel->scratch_bytes(args->weight->columns));
    }
    return STATUS_OK;
}
