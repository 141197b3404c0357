/* Contract of storing rows. */
#include "ops/encode_rows.h"

enum status op_encode_rows(struct op_queue *queue, const struct encode_rows_args *args) {
    TENSOR_EXPECT(&args->x, "encode_rows: x", DTYPES_ACTIVATION, -1, args->layout.width);
    return op_queue_submit(queue, OP_ENCODE_ROWS, args);
}
