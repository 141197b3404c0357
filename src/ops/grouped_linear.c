/* Contract of the block-diagonal linear map. */
#include "ops/grouped_linear.h"

enum status op_grouped_linear(struct op_queue *queue, const struct grouped_linear_args *args) {
    const struct weight *weight = args->weight;
    TRY(weight_expect_leaves(weight, "grouped_linear", 1));
    TENSOR_EXPECT(&args->x, weight->name, DTYPES_ACTIVATION, -1, -1, weight->columns);
    int64_t groups = args->x.shape[1];
    CHECK(groups > 0 && weight->rows % groups == 0, STATUS_BAD_SHAPE,
          "grouped_linear: %s does not divide into groups", weight->name);
    TENSOR_EXPECT(&args->out, weight->name, DTYPE_BIT(args->x.dtype), args->x.shape[0], groups,
                  weight->rows / groups);
    return op_queue_submit(queue, OP_GROUPED_LINEAR, args);
}
