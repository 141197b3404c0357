/* Contract of the RMS norm. */
#include "ops/rms_norm.h"

enum status op_rms_norm(struct op_queue *queue, const struct rms_norm_args *args) {
    struct tensor x = tensor_as_matrix(&args->x);
    struct tensor out = tensor_as_matrix(&args->out);
    CHECK(args->x.rank >= 2, STATUS_BAD_SHAPE, "rms_norm: x has no axis of rows");
    TENSOR_EXPECT(&x, "rms_norm: x", DTYPES_ACTIVATION, -1, -1);
    TENSOR_EXPECT(&out, "rms_norm: out", DTYPE_BIT(x.dtype), args->rows == NULL ? x.shape[0] : -1,
                  x.shape[1]);
    if (args->rows != NULL) {
        CHECK(tensor_row_elements(&args->out) == tensor_row_elements(&args->x), STATUS_BAD_SHAPE,
              "rms_norm: out has rows of %lld elements, x of %lld",
              (long long)tensor_row_elements(&args->out), (long long)tensor_row_elements(&args->x));
        CHECK(out.data != x.data, STATUS_BAD_SHAPE,
              "rms_norm: out overlaps x, of which it takes rows by index");
    }
    if (args->weight != NULL) {
        TRY(weight_expect_plain(args->weight, "rms_norm: weight", 1, x.shape[1]));
    }
    return op_queue_submit(queue, OP_RMS_NORM, args);
}
