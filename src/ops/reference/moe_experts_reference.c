/*
 * Routed experts. Inputs become floats once; then each expert decodes each of its weight rows once and
 * multiplies it with the rows routed to it. Two passes: the gated inner values, then the down projection.
 */
#include "ops/moe_experts.h"

#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "tensor/quantize.h"

/* Weight rows that one item handles, so that one expert's work is shared between threads. */
enum { ROWS_PER_ITEM = 32 };

struct moe_run {
    const struct moe_experts_args *args;
    struct leaf_plan down_leaves;
    float *inputs; /* (rows, width) */
    float *inner;  /* (rows * picks, inner width) */
    char *thread_workspaces;
    bool rounds_inputs;
};

static bool is_quantised(const struct weight *weight) {
    return weight->format != WEIGHT_PLAIN;
}

static void read_input(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct moe_run *run = context;
    int64_t width = run->args->x.shape[1];
    float *values = run->inputs + row * width;
    reference_read(&run->args->x, row * width, width, values);
    if (run->rounds_inputs && is_quantised(run->args->bank->gate)) {
        act8_round(values, width, ACT8_LINEAR_BLOCK);
    }
}

static int64_t blocks_of(int64_t rows) {
    return (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM;
}

static bool is_routed(const struct moe_experts_args *args, int64_t pair, int64_t expert) {
    return ((const int32_t *)args->experts.data)[pair] == args->bank->first + expert;
}

static bool is_in_bank(const struct moe_experts_args *args, int64_t pair) {
    int64_t expert = ((const int32_t *)args->experts.data)[pair] - args->bank->first;
    return expert >= 0 && expert < args->bank->count;
}

/* Item: one expert, one block of its inner rows. */
static void gate_block(const void *context, int64_t item, void *workspace) {
    const struct moe_run *run = context;
    const struct moe_experts_args *args = run->args;
    int64_t inner_width = args->bank->gate->rows;
    int64_t width = args->x.shape[1];
    int64_t picks = args->experts.shape[1];
    int64_t expert = item / blocks_of(inner_width);
    int64_t first = item % blocks_of(inner_width) * ROWS_PER_ITEM;
    int64_t last = first + ROWS_PER_ITEM < inner_width ? first + ROWS_PER_ITEM : inner_width;
    float *gate_row = workspace;
    float *up_row = gate_row + width;
    int64_t pairs = args->x.shape[0] * picks;
    bool is_needed = false;
    for (int64_t pair = 0; pair < pairs && !is_needed; pair++) {
        is_needed = is_routed(args, pair, expert);
    }
    for (int64_t i = first; is_needed && i < last; i++) {
        weight_decode_row(&args->bank->gate[expert], i, gate_row);
        weight_decode_row(&args->bank->up[expert], i, up_row);
        for (int64_t pair = 0; pair < pairs; pair++) {
            if (!is_routed(args, pair, expert)) {
                continue;
            }
            const float *input = run->inputs + pair / picks * width;
            float both[2] = {(float)reference_dot(gate_row, input, width),
                             (float)reference_dot(up_row, input, width)};
            reference_round(args->x.dtype, both, 2);
            float routing = ((const float *)args->weights.data)[pair];
            run->inner[pair * inner_width + i] = routing * reference_swiglu(both[0], both[1], args->clamp);
        }
    }
}

static void round_inner(const void *context, int64_t pair, void *workspace) {
    (void)workspace;
    const struct moe_run *run = context;
    int64_t inner_width = run->args->bank->gate->rows;
    float *values = run->inner + pair * inner_width;
    if (!is_in_bank(run->args, pair)) {
        return;
    }
    reference_round(run->args->x.dtype, values, inner_width);
    if (run->rounds_inputs && is_quantised(run->args->bank->down)) {
        act8_round(values, inner_width, ACT8_LINEAR_BLOCK);
    }
}

/* Item: one expert, one block of its output rows. */
static void down_block(const void *context, int64_t item, void *workspace) {
    const struct moe_run *run = context;
    const struct moe_experts_args *args = run->args;
    int64_t inner_width = args->bank->gate->rows;
    int64_t width = args->out.shape[2];
    int64_t expert = item / blocks_of(width);
    int64_t first = item % blocks_of(width) * ROWS_PER_ITEM;
    int64_t last = first + ROWS_PER_ITEM < width ? first + ROWS_PER_ITEM : width;
    int64_t pairs = args->x.shape[0] * args->experts.shape[1];
    float *down_row = workspace;
    bool is_needed = false;
    for (int64_t pair = 0; pair < pairs && !is_needed; pair++) {
        is_needed = is_routed(args, pair, expert);
    }
    for (int64_t i = first; is_needed && i < last; i++) {
        weight_decode_row(&args->bank->down[expert], i, down_row);
        for (int64_t pair = 0; pair < pairs; pair++) {
            if (is_routed(args, pair, expert)) {
                const float *inner = run->inner + pair * inner_width;
                float value = reference_leaf_dot(&run->down_leaves, down_row, inner);
                reference_write(&args->out, pair * width + i, 1, &value);
            }
        }
    }
}

static size_t thread_bytes(const struct moe_experts_args *args) {
    int64_t width = args->x.shape[1];
    int64_t inner_width = args->bank->gate->rows;
    return kernel_float_bytes(2 * width > inner_width ? 2 * width : inner_width);
}

static size_t input_bytes(const struct moe_experts_args *args) {
    return kernel_float_bytes(args->x.shape[0] * args->x.shape[1]);
}

static size_t inner_bytes(const struct moe_experts_args *args) {
    return kernel_float_bytes(args->x.shape[0] * args->experts.shape[1] * args->bank->gate->rows);
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    const struct moe_experts_args *args = arguments;
    return input_bytes(args) + inner_bytes(args) + thread_count * thread_bytes(args);
}

static enum status run_experts(const struct kernel_env *env, const struct moe_experts_args *args,
                               bool rounds_inputs) {
    char *memory = env->workspace;
    struct moe_run run = {.args = args, .rounds_inputs = rounds_inputs};
    run.down_leaves = leaf_plan_make(&args->bank->down->leaves, args->bank->down->columns);
    run.inputs = (float *)(void *)memory;
    run.inner = (float *)(void *)(memory + input_bytes(args));
    run.thread_workspaces = memory + input_bytes(args) + inner_bytes(args);
    int64_t experts = args->bank->count;
    int64_t rows = args->x.shape[0];
    kernel_for_each_item(env, rows, read_input, &run, NULL, 0);
    kernel_for_each_item(env, experts * blocks_of(args->bank->gate->rows), gate_block, &run,
                         run.thread_workspaces, thread_bytes(args));
    kernel_for_each_item(env, rows * args->experts.shape[1], round_inner, &run, NULL, 0);
    kernel_for_each_item(env, experts * blocks_of(args->out.shape[2]), down_block, &run,
                         run.thread_workspaces, thread_bytes(args));
    return STATUS_OK;
}

static enum status run_ideal(const struct kernel_env *env, const void *arguments) {
    return run_experts(env, arguments, false);
}

static enum status run_native(const struct kernel_env *env, const void *arguments) {
    return run_experts(env, arguments, true);
}

const struct op_entry moe_experts_ideal_reference = {
    .op = OP_MOE_EXPERTS,
    .name = "moe_experts_ideal_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_IDEAL,
    .run = run_ideal,
    .workspace_bytes = workspace_bytes,
};
const struct op_entry moe_experts_native_reference = {
    .op = OP_MOE_EXPERTS,
    .name = "moe_experts_native_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_NATIVE,
    .run = run_native,
    .workspace_bytes = workspace_bytes,
};
