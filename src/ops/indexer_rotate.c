/* Contract of the Hadamard transform. */
#include "ops/indexer_rotate.h"

enum status op_indexer_rotate(struct op_queue *queue, const struct indexer_rotate_args *args) {
    TENSOR_EXPECT(&args->x, "indexer_rotate: x", DTYPES_ACTIVATION, -1, -1, -1);
    int64_t width = args->x.shape[2];
    CHECK(width >= 32 && (width & (width - 1)) == 0, STATUS_BAD_SHAPE,
          "indexer_rotate: width %lld is no power of two from 32", (long long)width);
    return op_queue_submit(queue, OP_INDEXER_ROTATE, args);
}
