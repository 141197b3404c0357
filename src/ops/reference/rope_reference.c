/* Rotation of every head of every row. */
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "ops/rope.h"

static void rotate_row(const void *context, int64_t row, void *workspace) {
    const struct rope_args *args = context;
    int64_t heads = args->x.shape[1];
    int64_t width = args->x.shape[2];
    float *head = workspace;
    for (int64_t h = 0; h < heads; h++) {
        int64_t first = (row * heads + h) * width;
        reference_read(&args->x, first, width, head);
        reference_rotate(head, width, args->positions[row], args->table, args->is_inverse);
        reference_write(&args->x, first, width, head);
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    const struct rope_args *args = arguments;
    return thread_count * kernel_float_bytes(args->x.shape[2]);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct rope_args *args = arguments;
    kernel_for_each_item(env, args->x.shape[0], rotate_row, args, env->workspace,
                         kernel_float_bytes(args->x.shape[2]));
    return STATUS_OK;
}

const struct op_entry rope_reference = {
    .op = OP_ROPE,
    .name = "rope_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
