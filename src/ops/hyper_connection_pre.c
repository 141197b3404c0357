/* Contract of the streams' collapse before a sublayer. */
#include "ops/hyper_connection_pre.h"

enum status op_hyper_connection_pre(struct op_queue *queue, const struct hyper_connection_pre_args *args) {
    const struct tensor *streams = &args->streams;
    TENSOR_EXPECT(streams, "hyper_connection_pre: streams", DTYPES_ACTIVATION, -1, -1, -1);
    int64_t rows = streams->shape[0];
    int64_t count = streams->shape[1];
    CHECK(count >= 1 && count <= HYPER_CONNECTION_STREAMS_MAX, STATUS_BAD_SHAPE,
          "hyper_connection_pre: %lld streams, at most %d", (long long)count, HYPER_CONNECTION_STREAMS_MAX);
    unsigned f32 = DTYPE_BIT(DTYPE_F32);
    TENSOR_EXPECT(&args->out, "hyper_connection_pre: out", DTYPE_BIT(streams->dtype), rows,
                  streams->shape[2]);
    TENSOR_EXPECT(&args->post, "hyper_connection_pre: post", f32, rows, count);
    TENSOR_EXPECT(&args->comb, "hyper_connection_pre: comb", f32, rows, count, count);
    int64_t mixes = (2 + count) * count;
    TRY(weight_expect_plain(args->mix, "hyper_connection_pre: mix", mixes, count * streams->shape[2]));
    TRY(weight_expect_plain(args->base, "hyper_connection_pre: base", 1, mixes));
    TRY(weight_expect_plain(args->scale, "hyper_connection_pre: scale", 1, 3));
    return op_queue_submit(queue, OP_HYPER_CONNECTION_PRE, args);
}
