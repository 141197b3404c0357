/* Contract of reading rows back. */
#include "ops/decode_rows.h"

enum status op_decode_rows(struct op_queue *queue, const struct decode_rows_args *args) {
    TENSOR_EXPECT(&args->out, "decode_rows: out", DTYPES_ACTIVATION, -1, args->layout.width);
    return op_queue_submit(queue, OP_DECODE_ROWS, args);
}
