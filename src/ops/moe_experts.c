/* Contract of the routed experts. */
#include "ops/moe_experts.h"

enum status op_moe_experts(struct op_queue *queue, const struct moe_experts_args *args) {
    const struct tensor *x = &args->x;
    const struct expert_weights *bank = args->bank;
    CHECK(bank->count > 0, STATUS_BAD_SHAPE, "moe_experts: no experts");
    CHECK(bank->up[0].rows == bank->gate[0].rows && bank->up[0].columns == bank->gate[0].columns,
          STATUS_BAD_SHAPE, "moe_experts: %s has another shape than %s", bank->up[0].name,
          bank->gate[0].name);
    CHECK(bank->down[0].columns == bank->gate[0].rows, STATUS_BAD_SHAPE,
          "moe_experts: %s does not take what %s gives", bank->down[0].name, bank->gate[0].name);
    TRY(weight_expect_leaves(&bank->gate[0], "moe_experts", 1));
    TRY(weight_expect_leaves(&bank->up[0], "moe_experts", 1));
    TRY(weight_expect_leaves(&bank->down[0], "moe_experts", LEAF_COUNT_MAX));
    TENSOR_EXPECT(x, bank->gate[0].name, DTYPES_ACTIVATION, -1, bank->gate[0].columns);
    TENSOR_EXPECT(&args->experts, "moe_experts: experts", DTYPE_BIT(DTYPE_I32), x->shape[0], -1);
    int64_t picks = args->experts.shape[1];
    TENSOR_EXPECT(&args->weights, "moe_experts: weights", DTYPE_BIT(DTYPE_F32), x->shape[0], picks);
    TENSOR_EXPECT(&args->out, bank->down[0].name, DTYPE_BIT(x->dtype) | DTYPE_BIT(DTYPE_F32), x->shape[0],
                  picks, bank->down[0].rows);
    return op_queue_submit(queue, OP_MOE_EXPERTS, args);
}
