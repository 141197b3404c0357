/* Contract of the RMS norm. */
#include "ops/rms_norm.h"

enum status op_rms_norm(struct op_queue *queue, const struct rms_norm_args *args) {
    struct tensor x = tensor_as_matrix(&args->x);
    struct tensor out = tensor_as_matrix(&args->out);
    TENSOR_EXPECT(&x, "rms_norm: x", DTYPES_ACTIVATION, -1, -1);
    TENSOR_EXPECT(&out, "rms_norm: out", DTYPE_BIT(x.dtype), x.shape[0], x.shape[1]);
    if (args->weight != NULL) {
        TRY(weight_expect_plain(args->weight, "rms_norm: weight", 1, x.shape[1]));
    }
    return op_queue_submit(queue, OP_RMS_NORM, args);
}
