/* Contract of the sum of expert results. */
#include "ops/moe_combine.h"

enum status op_moe_combine(struct op_queue *queue, const struct moe_combine_args *args) {
    const struct tensor *routed = &args->routed;
    TENSOR_EXPECT(routed, "moe_combine: routed", DTYPES_ACTIVATION, -1, -1, -1);
    TENSOR_EXPECT(&args->shared, "moe_combine: shared", DTYPE_BIT(routed->dtype), routed->shape[0],
                  routed->shape[2]);
    TENSOR_EXPECT(&args->out, "moe_combine: out", DTYPE_BIT(routed->dtype), routed->shape[0],
                  routed->shape[2]);
    return op_queue_submit(queue, OP_MOE_COMBINE, args);
}
