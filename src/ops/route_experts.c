/* Contract of the router. */
#include "ops/route_experts.h"

enum status op_route_experts(struct op_queue *queue, const struct route_experts_args *args) {
    const struct tensor *logits = &args->logits;
    TENSOR_EXPECT(logits, "route_experts: logits", DTYPE_BIT(DTYPE_F32), -1, -1);
    TENSOR_EXPECT(&args->experts, "route_experts: experts", DTYPE_BIT(DTYPE_I32), logits->shape[0], -1);
    int64_t picks = args->experts.shape[1];
    TENSOR_EXPECT(&args->weights, "route_experts: weights", DTYPE_BIT(DTYPE_F32), logits->shape[0], picks);
    CHECK(picks >= 1 && picks <= logits->shape[1], STATUS_BAD_SHAPE,
          "route_experts: %lld picks of %lld experts", (long long)picks, (long long)logits->shape[1]);
    if (args->table.data != NULL) {
        TENSOR_EXPECT(&args->table, "route_experts: table", DTYPE_BIT(DTYPE_I64) | DTYPE_BIT(DTYPE_I32), -1,
                      picks);
    }
    if (args->bias != NULL) {
        TRY(weight_expect_plain(args->bias, "route_experts: bias", 1, logits->shape[1]));
    }
    return op_queue_submit(queue, OP_ROUTE_EXPERTS, args);
}
