/* The write-back of a sublayer's output into the residual streams. */
#include "ops/hyper_connection_post.h"

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "ops/hyper_connection_pre.h"

/* The usual number of streams, compiled apart so that they stay in registers. */
enum { USUAL_STREAMS = 4 };

/* One register of channels of all streams; `left` channels remain. */
LANES_INLINE void mix_channels(enum dtype dtype, int64_t count, const struct hyper_connection_post_args *args,
                               int64_t row, int64_t channel, int64_t left) {
    int64_t width = args->streams.shape[2];
    const float *post = (const float *)args->post.data + row * count;
    const float *comb = (const float *)args->comb.data + row * count * count;
    int64_t first = row * count * width + channel;
    f32_piece branch = piece_read(dtype, args->branch.data, row * width + channel, left);
    f32_piece streams[HYPER_CONNECTION_STREAMS_MAX];
#pragma GCC unroll 4
    for (int64_t j = 0; j < count; j++) {
        streams[j] = piece_read(dtype, args->streams.data, first + j * width, left);
    }
#pragma GCC unroll 4
    for (int64_t k = 0; k < count; k++) {
        f32_piece sum = {0};
#pragma GCC unroll 4
        for (int64_t j = 0; j < count; j++) {
            sum += comb[j * count + k] * streams[j];
        }
        piece_write(dtype, args->streams.data, first + k * width, left, sum + post[k] * branch);
    }
}

LANES_INLINE void mix_row(enum dtype dtype, int64_t count, const struct hyper_connection_post_args *args,
                          int64_t row) {
    int64_t width = args->streams.shape[2];
    int64_t i = 0;
    for (; i + PIECE_LANES <= width; i += PIECE_LANES) {
        mix_channels(dtype, count, args, row, i, PIECE_LANES);
    }
    if (i < width) {
        mix_channels(dtype, count, args, row, i, width - i);
    }
}

static void post_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct hyper_connection_post_args *args = context;
    int64_t count = args->streams.shape[1];
    if (args->streams.dtype == DTYPE_F32) {
        mix_row(DTYPE_F32, count, args, row);
    } else if (count == USUAL_STREAMS) {
        mix_row(DTYPE_BF16, USUAL_STREAMS, args, row);
    } else {
        mix_row(DTYPE_BF16, count, args, row);
    }
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct hyper_connection_post_args *args = arguments;
    int64_t row_bytes = 2 * tensor_row_elements(&args->streams) * (int64_t)dtype_bytes(args->streams.dtype);
    lanes_for_each_row(env, args->streams.shape[0], row_bytes, post_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(hyper_connection_post) = {
    .op = OP_HYPER_CONNECTION_POST, LANES_ENTRY(hyper_connection_post), .modes = OP_MODE_BOTH, .run = run};
