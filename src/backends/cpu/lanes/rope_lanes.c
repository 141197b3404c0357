/* Rotation of every head of every row: sines and cosines once per row. */
#include "ops/rope.h"

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/rope_math_lanes.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"

LANES_INLINE void rotate_row_typed(enum dtype dtype, const struct rope_args *args, int64_t row) {
    int64_t heads = args->x.shape[1];
    int64_t width = args->x.shape[2];
    int pair_count = args->table->pair_count;
    struct lanes_rotation rotation;
    lanes_rotation_init(&rotation, args->table, args->positions[row], args->is_inverse);
    for (int64_t h = 0; h < heads; h++) {
        int64_t end = (row * heads + h + 1) * width;
        lanes_rotate(dtype, args->x.data, end - 2 * pair_count, pair_count, &rotation);
    }
}

static void rotate_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct rope_args *args = context;
    if (args->x.dtype == DTYPE_F32) {
        rotate_row_typed(DTYPE_F32, args, row);
    } else {
        rotate_row_typed(DTYPE_BF16, args, row);
    }
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct rope_args *args = arguments;
    /* A pair's sine and cosine cost as much as moving a few hundred bytes. */
    int64_t row_bytes = args->table->pair_count * (256 + 16 * args->x.shape[1]);
    lanes_for_each_row(env, args->x.shape[0], row_bytes, rotate_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(rope) = {
    .op = OP_ROPE, LANES_ENTRY(rope), .modes = OP_MODE_BOTH, .run = run};
