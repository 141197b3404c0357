/* Sums and gates of rows. */
#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "ops/add_broadcast.h"
#include "ops/moe_combine.h"
#include "ops/swiglu.h"

LANES_INLINE void combine_row_typed(enum dtype dtype, const struct moe_combine_args *args, int64_t row) {
    int64_t picks = args->routed.shape[1];
    int64_t width = args->routed.shape[2];
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece sum = {0};
        for (int64_t k = 0; k < picks; k++) {
            int64_t at = (row * picks + k) * width + i;
            sum += piece_read(dtype, args->routed.data, at, width - i);
        }
        sum += piece_read(dtype, args->shared.data, row * width + i, width - i);
        piece_write(dtype, args->out.data, row * width + i, width - i, sum);
    }
}

static void combine_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct moe_combine_args *args = context;
    if (args->routed.dtype == DTYPE_F32) {
        combine_row_typed(DTYPE_F32, args, row);
    } else {
        combine_row_typed(DTYPE_BF16, args, row);
    }
}

LANES_INLINE void swiglu_row_typed(enum dtype dtype, const struct swiglu_args *args, int64_t row) {
    int64_t width = args->gate.shape[1];
    f32_piece clamp = piece_splat(args->clamp);
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece gate = piece_read(dtype, args->gate.data, row * width + i, width - i);
        f32_piece up = piece_read(dtype, args->up.data, row * width + i, width - i);
        /* In this order a NaN comes through. */
        gate = piece_min(clamp, gate);
        up = piece_max(-clamp, piece_min(clamp, up));
        piece_write(dtype, args->out.data, row * width + i, width - i, gate * piece_sigmoid(gate) * up);
    }
}

static void swiglu_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct swiglu_args *args = context;
    if (args->gate.dtype == DTYPE_F32) {
        swiglu_row_typed(DTYPE_F32, args, row);
    } else {
        swiglu_row_typed(DTYPE_BF16, args, row);
    }
}

LANES_INLINE void add_row_typed(enum dtype dtype, const struct add_broadcast_args *args, int64_t row) {
    int64_t copies = args->b.shape[1];
    int64_t width = args->b.shape[2];
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece a = piece_read(dtype, args->a.data, row * width + i, width - i);
        for (int64_t copy = 0; copy < copies; copy++) {
            int64_t at = (row * copies + copy) * width + i;
            f32_piece b = piece_read(dtype, args->b.data, at, width - i);
            piece_write(dtype, args->out.data, at, width - i, a + b);
        }
    }
}

static void add_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct add_broadcast_args *args = context;
    if (args->b.dtype == DTYPE_F32) {
        add_row_typed(DTYPE_F32, args, row);
    } else {
        add_row_typed(DTYPE_BF16, args, row);
    }
}

static enum status run_combine(const struct kernel_env *env, const void *arguments) {
    const struct moe_combine_args *args = arguments;
    int64_t row_bytes =
        (args->routed.shape[1] + 2) * args->routed.shape[2] * (int64_t)dtype_bytes(args->routed.dtype);
    lanes_for_each_row(env, args->routed.shape[0], row_bytes, combine_row, args, NULL, 0);
    return STATUS_OK;
}

static enum status run_swiglu(const struct kernel_env *env, const void *arguments) {
    const struct swiglu_args *args = arguments;
    /* The exponential costs as much as the accesses. */
    int64_t row_bytes = 6 * args->gate.shape[1] * (int64_t)dtype_bytes(args->gate.dtype);
    lanes_for_each_row(env, args->gate.shape[0], row_bytes, swiglu_row, args, NULL, 0);
    return STATUS_OK;
}

static enum status run_add(const struct kernel_env *env, const void *arguments) {
    const struct add_broadcast_args *args = arguments;
    int64_t row_bytes = 2 * tensor_row_elements(&args->b) * (int64_t)dtype_bytes(args->b.dtype);
    lanes_for_each_row(env, args->b.shape[0], row_bytes, add_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(moe_combine) = {
    .op = OP_MOE_COMBINE, LANES_ENTRY(moe_combine), .modes = OP_MODE_BOTH, .run = run_combine};
const struct op_entry LANES_NAME(swiglu) = {
    .op = OP_SWIGLU, LANES_ENTRY(swiglu), .modes = OP_MODE_BOTH, .run = run_swiglu};
const struct op_entry LANES_NAME(add_broadcast) = {
    .op = OP_ADD_BROADCAST, LANES_ENTRY(add_broadcast), .modes = OP_MODE_BOTH, .run = run_add};
