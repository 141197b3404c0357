/* RMS norm: the squares are summed lane-wise, then by the tree. */
#include "ops/rms_norm.h"

#include <math.h>

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "ops/kernel_items.h"
#include "tensor/weight.h"

static f32x16 read_block(const struct tensor *x, int64_t first, int64_t left) {
    return left >= LANES ? lanes_read(x->dtype, x->data, first)
                         : lanes_read_part(x->dtype, x->data, first, left);
}

static void write_block(const struct tensor *x, int64_t first, int64_t left, f32x16 value) {
    if (left >= LANES) {
        lanes_write(x->dtype, x->data, first, value);
    } else {
        lanes_write_part(x->dtype, x->data, first, left, value);
    }
}

static void norm_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct rms_norm_args *args = context;
    const struct weight *weight = args->weight;
    int64_t width = args->x.shape[args->x.rank - 1];
    int64_t start = row * width;
    f32x16 squares = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        f32x16 x = read_block(&args->x, start + i, width - i);
        squares += x * x;
    }
    float factor = 1.0f / sqrtf(lanes_sum(squares) / (float)width + args->epsilon);
    for (int64_t i = 0; i < width; i += LANES) {
        f32x16 y = read_block(&args->x, start + i, width - i) * factor;
        if (weight != NULL && width - i >= LANES) {
            y *= lanes_read(weight->dtype, weight->data, i);
        } else if (weight != NULL) {
            y *= lanes_read_part(weight->dtype, weight->data, i, width - i);
        }
        write_block(&args->out, start + i, width - i, y);
    }
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct rms_norm_args *args = arguments;
    struct tensor x = tensor_as_matrix(&args->x);
    kernel_for_each_item(env, x.shape[0], norm_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(rms_norm) = {
    .op = OP_RMS_NORM, LANES_ENTRY(rms_norm), .modes = OP_MODE_BOTH, .run = run};
