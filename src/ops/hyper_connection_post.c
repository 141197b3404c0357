/* Contract of writing a branch back into the streams. */
#include "ops/hyper_connection_post.h"

enum status op_hyper_connection_post(struct op_queue *queue, const struct hyper_connection_post_args *args) {
    const struct tensor *streams = &args->streams;
    TENSOR_EXPECT(streams, "hyper_connection_post: streams", DTYPES_ACTIVATION, -1, -1, -1);
    int64_t rows = streams->shape[0];
    int64_t count = streams->shape[1];
    unsigned f32 = DTYPE_BIT(DTYPE_F32);
    TENSOR_EXPECT(&args->branch, "hyper_connection_post: branch", DTYPE_BIT(streams->dtype), rows,
                  streams->shape[2]);
    TENSOR_EXPECT(&args->post, "hyper_connection_post: post", f32, rows, count);
    TENSOR_EXPECT(&args->comb, "hyper_connection_post: comb", f32, rows, count, count);
    return op_queue_submit(queue, OP_HYPER_CONNECTION_POST, args);
}
