/* Contract of the compressor's raw rows. */
#include "ops/compressor_rows.h"

enum status op_compressor_rows(struct op_queue *queue, const struct compressor_rows_args *args) {
    unsigned f32 = DTYPE_BIT(DTYPE_F32);
    TRY(weight_expect_plain(args->bias, "compressor_rows: bias", -1, -1));
    TENSOR_EXPECT(&args->values, "compressor_rows: values", f32, -1, args->bias->columns);
    TENSOR_EXPECT(&args->scores, "compressor_rows: scores", f32, args->values.shape[0], args->bias->columns);
    TENSOR_EXPECT(&args->out, "compressor_rows: out", f32, args->values.shape[0], 2 * args->bias->columns);
    return op_queue_submit(queue, OP_COMPRESSOR_ROWS, args);
}
