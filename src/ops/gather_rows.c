/* Contract of the row gather. */
#include "ops/gather_rows.h"

enum status op_gather_rows(struct op_queue *queue, const struct gather_rows_args *args) {
    const struct tensor *x = &args->x;
    CHECK(x->rank >= 1 && x->rank == args->out.rank && x->dtype == args->out.dtype &&
              tensor_row_elements(x) == tensor_row_elements(&args->out),
          STATUS_BAD_SHAPE, "gather_rows: out does not hold rows of x");
    return op_queue_submit(queue, OP_GATHER_ROWS, args);
}
