/* Contract of the rotary embedding. */
#include "ops/rope.h"

enum status op_rope(struct op_queue *queue, const struct rope_args *args) {
    TENSOR_EXPECT(&args->x, "rope: x", DTYPES_ACTIVATION, -1, -1, -1);
    CHECK(args->x.shape[2] >= 2 * args->table->pair_count, STATUS_BAD_SHAPE,
          "rope: %d rotary channels do not fit the head", 2 * args->table->pair_count);
    return op_queue_submit(queue, OP_ROPE, args);
}
