/* Hadamard transform of the indexer's queries; in native numerics rounded by ACT4. */
#include "ops/indexer_rotate.h"

#include "backends/cpu/lanes/hadamard_lanes.h"
#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/quantize_lanes.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"

/* Rounds one group of 32 by ACT4 in place. */
LANES_INLINE void round_group(enum dtype dtype, void *x, int64_t first) {
    int exponent = act4_scale_exponent(lanes_largest_magnitude(dtype, x, first, ACT4_BLOCK));
    float inverse = f32_power_of_two(-exponent);
    float scale = f32_power_of_two(exponent);
    for (int64_t i = first; i < first + ACT4_BLOCK; i += PIECE_LANES) {
        f32_piece value = piece_read(dtype, x, i, PIECE_LANES) * inverse;
        piece_write(dtype, x, i, PIECE_LANES, piece_e2m1_round(value) * scale);
    }
}

static void rotate_head_ideal(const void *context, int64_t head, void *workspace) {
    const struct indexer_rotate_args *args = context;
    int64_t width = args->x.shape[2];
    if (args->x.dtype == DTYPE_F32) {
        lanes_hadamard(DTYPE_F32, args->x.data, head * width, width, workspace);
    } else {
        lanes_hadamard(DTYPE_BF16, args->x.data, head * width, width, workspace);
    }
}

static void rotate_head_native(const void *context, int64_t head, void *workspace) {
    const struct indexer_rotate_args *args = context;
    int64_t width = args->x.shape[2];
    rotate_head_ideal(context, head, workspace);
    for (int64_t group = 0; group < width; group += ACT4_BLOCK) {
        if (args->x.dtype == DTYPE_F32) {
            round_group(DTYPE_F32, args->x.data, head * width + group);
        } else {
            round_group(DTYPE_BF16, args->x.data, head * width + group);
        }
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    const struct indexer_rotate_args *args = arguments;
    return thread_count * kernel_float_bytes(args->x.shape[2]);
}

static void run(const struct kernel_env *env, const struct indexer_rotate_args *args,
                void (*rotate)(const void *args, int64_t head, void *workspace)) {
    int64_t width = args->x.shape[2];
    /* Seven steps and the rounding cost as much as moving sixteen bytes a channel. */
    lanes_for_each_row(env, args->x.shape[0] * args->x.shape[1], 16 * width, rotate, args, env->workspace,
                       kernel_float_bytes(width));
}

static enum status run_ideal(const struct kernel_env *env, const void *arguments) {
    run(env, arguments, rotate_head_ideal);
    return STATUS_OK;
}

static enum status run_native(const struct kernel_env *env, const void *arguments) {
    run(env, arguments, rotate_head_native);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(indexer_rotate_ideal) = {.op = OP_INDEXER_ROTATE,
                                                          LANES_ENTRY(indexer_rotate_ideal),
                                                          .modes = OP_MODE_IDEAL,
                                                          .run = run_ideal,
                                                          .workspace_bytes = workspace_bytes};
const struct op_entry LANES_NAME(indexer_rotate_native) = {.op = OP_INDEXER_ROTATE,
                                                           LANES_ENTRY(indexer_rotate_native),
                                                           .modes = OP_MODE_NATIVE,
                                                           .run = run_native,
                                                           .workspace_bytes = workspace_bytes};
