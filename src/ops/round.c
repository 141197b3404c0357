/* Contract of the rounding. */
#include "ops/round.h"

enum status op_round(struct op_queue *queue, const struct round_args *args) {
    const struct tensor *x = &args->x;
    TENSOR_EXPECT(x, "round: x", DTYPE_BIT(DTYPE_F32), -1, -1);
    TENSOR_EXPECT(&args->out, "round: out", DTYPES_ACTIVATION, x->shape[0], x->shape[1]);
    return op_queue_submit(queue, OP_ROUND, args);
}
