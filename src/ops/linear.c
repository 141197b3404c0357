/* Contract of the linear map. */
#include "ops/linear.h"

enum status op_linear(struct op_queue *queue, const struct linear_args *args) {
    const struct weight *weight = args->weight;
    TRY(weight_expect_leaves(weight, "linear", LEAF_COUNT_MAX));
    TENSOR_EXPECT(&args->x, weight->name, DTYPES_ACTIVATION, -1, weight->columns);
    TENSOR_EXPECT(&args->out, weight->name, DTYPES_ACTIVATION, args->x.shape[0], weight->rows);
    CHECK(args->out.data != args->x.data || tensor_elements(&args->x) == 0, STATUS_BAD_SHAPE,
          "linear: out overlaps x (%s)", weight->name);
    return op_queue_submit(queue, OP_LINEAR, args);
}
