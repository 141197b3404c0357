/* Contract of the broadcast sum. */
#include "ops/add_broadcast.h"

enum status op_add_broadcast(struct op_queue *queue, const struct add_broadcast_args *args) {
    const struct tensor *b = &args->b;
    TENSOR_EXPECT(b, "add_broadcast: b", DTYPES_ACTIVATION, -1, -1, -1);
    TENSOR_EXPECT(&args->a, "add_broadcast: a", DTYPE_BIT(b->dtype), b->shape[0], b->shape[2]);
    TENSOR_EXPECT(&args->out, "add_broadcast: out", DTYPE_BIT(b->dtype), b->shape[0], b->shape[1],
                  b->shape[2]);
    return op_queue_submit(queue, OP_ADD_BROADCAST, args);
}
