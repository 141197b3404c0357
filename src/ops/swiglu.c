/* Contract of the gated activation. */
#include "ops/swiglu.h"

enum status op_swiglu(struct op_queue *queue, const struct swiglu_args *args) {
    const struct tensor *gate = &args->gate;
    TENSOR_EXPECT(gate, "swiglu: gate", DTYPES_ACTIVATION, -1, -1);
    TENSOR_EXPECT(&args->up, "swiglu: up", DTYPE_BIT(gate->dtype), gate->shape[0], gate->shape[1]);
    TENSOR_EXPECT(&args->out, "swiglu: out", DTYPE_BIT(gate->dtype), gate->shape[0], gate->shape[1]);
    return op_queue_submit(queue, OP_SWIGLU, args);
}
