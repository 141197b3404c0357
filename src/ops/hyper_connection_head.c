/* Contract of the streams' collapse before the head. */
#include "ops/hyper_connection_head.h"

enum status op_hyper_connection_head(struct op_queue *queue, const struct hyper_connection_head_args *args) {
    const struct tensor *streams = &args->streams;
    TENSOR_EXPECT(streams, "hyper_connection_head: streams", DTYPES_ACTIVATION, -1, -1, -1);
    int64_t rows = args->rows == NULL ? streams->shape[0] : -1;
    int64_t count = streams->shape[1];
    CHECK(count >= 1 && count <= HYPER_CONNECTION_STREAMS_MAX, STATUS_BAD_SHAPE,
          "hyper_connection_head: %lld streams, at most %d", (long long)count, HYPER_CONNECTION_STREAMS_MAX);
    TENSOR_EXPECT(&args->out, "hyper_connection_head: out", DTYPE_BIT(streams->dtype), rows,
                  streams->shape[2]);
    TRY(weight_expect_plain(args->mix, "hyper_connection_head: mix", count, count * streams->shape[2]));
    TRY(weight_expect_plain(args->base, "hyper_connection_head: base", 1, count));
    TRY(weight_expect_plain(args->scale, "hyper_connection_head: scale", 1, 1));
    return op_queue_submit(queue, OP_HYPER_CONNECTION_HEAD, args);
}
