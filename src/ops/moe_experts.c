/* Contract of the routed experts. */
#include "ops/moe_experts.h"

enum status op_moe_experts(struct op_queue *queue, const struct moe_experts_args *args) {
    const struct tensor *x = &args->x;
    const struct expert_weights *bank = args->bank;
    CHECK(bank->count > 0, STATUS_BAD_SHAPE, "moe_experts: no experts");
    TENSOR_EXPECT(x, bank->gate[0].name, DTYPES_ACTIVATION, -1, bank->gate[0].columns);
    TENSOR_EXPECT(&args->experts, "moe_experts: experts", DTYPE_BIT(DTYPE_I32), x->shape[0], -1);
    int64_t picks = args->experts.shape[1];
    TENSOR_EXPECT(&args->weights, "moe_experts: weights", DTYPE_BIT(DTYPE_F32), x->shape[0], picks);
    TENSOR_EXPECT(&args->out, bank->down[0].name, DTYPE_BIT(x->dtype), x->shape[0], picks,
                  bank->down[0].rows);
    return op_queue_submit(queue, OP_MOE_EXPERTS, args);
}
