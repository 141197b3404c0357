/* Sums and gates of rows. */
#include <string.h>

#include "ops/add_broadcast.h"
#include "ops/kernel_items.h"
#include "ops/moe_combine.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "ops/round.h"
#include "ops/swiglu.h"

static void combine_row(const void *context, int64_t row, void *workspace) {
    const struct moe_combine_args *args = context;
    int64_t picks = args->routed.shape[1];
    int64_t width = args->routed.shape[2];
    float *sum = workspace;
    float *part = sum + width;
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t k = 0; k <= picks; k++) {
        if (k < picks) {
            reference_read(&args->routed, (row * picks + k) * width, width, part);
        } else {
            reference_read(&args->shared, row * width, width, part);
        }
        for (int64_t i = 0; i < width; i++) {
            sum[i] += part[i];
        }
    }
    reference_write(&args->out, row * width, width, sum);
}

static void swiglu_row(const void *context, int64_t row, void *workspace) {
    const struct swiglu_args *args = context;
    int64_t width = args->gate.shape[1];
    float *gate = workspace;
    float *up = gate + width;
    reference_read(&args->gate, row * width, width, gate);
    reference_read(&args->up, row * width, width, up);
    for (int64_t i = 0; i < width; i++) {
        gate[i] = reference_swiglu(gate[i], up[i], args->clamp);
    }
    reference_write(&args->out, row * width, width, gate);
}

static void round_row(const void *context, int64_t row, void *workspace) {
    const struct round_args *args = context;
    int64_t width = args->x.shape[1];
    reference_read(&args->x, row * width, width, workspace);
    reference_write(&args->out, row * width, width, workspace);
}

static void add_row(const void *context, int64_t row, void *workspace) {
    const struct add_broadcast_args *args = context;
    int64_t copies = args->b.shape[1];
    int64_t width = args->b.shape[2];
    float *a = workspace;
    float *sum = a + width;
    reference_read(&args->a, row * width, width, a);
    for (int64_t copy = 0; copy < copies; copy++) {
        int64_t first = (row * copies + copy) * width;
        reference_read(&args->b, first, width, sum);
        for (int64_t i = 0; i < width; i++) {
            sum[i] += a[i];
        }
        reference_write(&args->out, first, width, sum);
    }
}

static size_t combine_workspace(const void *arguments, unsigned thread_count) {
    const struct moe_combine_args *args = arguments;
    return thread_count * kernel_float_bytes(2 * args->routed.shape[2]);
}

static enum status run_combine(const struct kernel_env *env, const void *arguments) {
    const struct moe_combine_args *args = arguments;
    kernel_for_each_item(env, args->routed.shape[0], combine_row, args, env->workspace,
                         kernel_float_bytes(2 * args->routed.shape[2]));
    return STATUS_OK;
}

static size_t swiglu_workspace(const void *arguments, unsigned thread_count) {
    const struct swiglu_args *args = arguments;
    return thread_count * kernel_float_bytes(2 * args->gate.shape[1]);
}

static enum status run_swiglu(const struct kernel_env *env, const void *arguments) {
    const struct swiglu_args *args = arguments;
    kernel_for_each_item(env, args->gate.shape[0], swiglu_row, args, env->workspace,
                         kernel_float_bytes(2 * args->gate.shape[1]));
    return STATUS_OK;
}

static size_t add_workspace(const void *arguments, unsigned thread_count) {
    const struct add_broadcast_args *args = arguments;
    return thread_count * kernel_float_bytes(2 * args->b.shape[2]);
}

static enum status run_add(const struct kernel_env *env, const void *arguments) {
    const struct add_broadcast_args *args = arguments;
    kernel_for_each_item(env, args->b.shape[0], add_row, args, env->workspace,
                         kernel_float_bytes(2 * args->b.shape[2]));
    return STATUS_OK;
}

static size_t round_workspace(const void *arguments, unsigned thread_count) {
    const struct round_args *args = arguments;
    return thread_count * kernel_float_bytes(args->x.shape[1]);
}

static enum status run_round(const struct kernel_env *env, const void *arguments) {
    const struct round_args *args = arguments;
    kernel_for_each_item(env, args->x.shape[0], round_row, args, env->workspace,
                         kernel_float_bytes(args->x.shape[1]));
    return STATUS_OK;
}

const struct op_entry moe_combine_reference = {
    .op = OP_MOE_COMBINE,
    .name = "moe_combine_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_combine,
    .workspace_bytes = combine_workspace,
};
const struct op_entry swiglu_reference = {
    .op = OP_SWIGLU,
    .name = "swiglu_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_swiglu,
    .workspace_bytes = swiglu_workspace,
};
const struct op_entry add_broadcast_reference = {
    .op = OP_ADD_BROADCAST,
    .name = "add_broadcast_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_add,
    .workspace_bytes = add_workspace,
};
const struct op_entry round_reference = {
    .op = OP_ROUND,
    .name = "round_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_round,
    .workspace_bytes = round_workspace,
};
