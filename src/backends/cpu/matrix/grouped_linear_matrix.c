/* Block-diagonal maps: a block of weight rows lies in one group and meets that group's inputs. */
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "backends/cpu/matrix/matrix_kernel.h"
#include "ops/kernel_items.h"

struct grouped_run {
    const struct matrix_kernel *kernel;
    const struct grouped_linear_args *args;
    struct leaf_plan leaves;
    char *packed; /* (groups, rows, packed_bytes) */
};

static int64_t group_rank(const struct grouped_linear_args *args) {
    return args->weight->rows / args->x.shape[1];
}

/* Item: one group of one row. */
static void pack_row(const void *context, int64_t item, void *workspace) {
    (void)workspace;
    const struct grouped_run *run = context;
    const struct tensor *x = &run->args->x;
    const struct weight *weight = run->args->weight;
    int64_t groups = x->shape[1];
    int64_t place = item % groups * x->shape[0] + item / groups;
    char *packed = run->packed + (size_t)place * run->kernel->packed_bytes(weight->columns);
    const char *from = (const char *)x->data + (size_t)(item * weight->columns) * dtype_bytes(x->dtype);
    run->kernel->pack(weight, false, x->dtype, from, packed);
}

static void store(const void *context, int64_t input, int64_t first_row, int64_t row_count,
                  const float *values) {
    const struct grouped_run *run = context;
    const struct tensor *out = &run->args->out;
    run->kernel->store(out->dtype, out->data, input * run->args->weight->rows + first_row, row_count, values);
}

static void multiply_block(const void *context, int64_t item, void *workspace) {
    const struct grouped_run *run = context;
    const struct grouped_linear_args *args = run->args;
    int64_t rank = group_rank(args);
    int64_t group = item / matrix_block_count(rank);
    int64_t block = item % matrix_block_count(rank);
    run->kernel->multiply(
        args->weight, &run->leaves, group * rank + block * MATRIX_BLOCK_ROWS, matrix_block_rows(rank, block),
        run->packed + (size_t)(group * args->x.shape[0]) * run->kernel->packed_bytes(args->weight->columns),
        args->x.shape[0], workspace, &(struct matrix_sink){store, run});
}

static size_t item_count(const struct grouped_linear_args *args) {
    return (size_t)(args->x.shape[0] * args->x.shape[1]);
}

static size_t packed_bytes(const struct matrix_kernel *kernel, const struct grouped_linear_args *args) {
    return item_count(args) * kernel->packed_bytes(args->weight->columns);
}

size_t matrix_grouped_linear_workspace(const struct matrix_kernel *kernel,
                                       const struct grouped_linear_args *args, unsigned thread_count) {
    return packed_bytes(kernel, args) + thread_count * kernel->scratch_bytes(args->weight->columns);
}

enum status matrix_grouped_linear_run(const struct matrix_kernel *kernel, const struct kernel_env *env,
                                      const struct grouped_linear_args *args) {
    struct grouped_run run = {.kernel = kernel, .args = args, .packed = env->workspace};
    run.leaves = matrix_leaves(args->weight);
    lanes_for_each_row(env, (int64_t)item_count(args), MATRIX_PACK_BYTES * args->weight->columns, pack_row,
                       &run, NULL, 0);
    if (item_count(args) > 0) {
        kernel_for_each_item(env, args->x.shape[1] * matrix_block_count(group_rank(args)), multiply_block,
                             &run, run.packed + packed_bytes(kernel, args),
                             kernel->scratch_bytes(args->weight->columns));
    }
    return STATUS_OK;
}
