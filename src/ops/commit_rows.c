/* Contract of writing rows into a ring. */
#include "ops/commit_rows.h"

enum status op_commit_rows(struct op_queue *queue, const struct commit_rows_args *args) {
    CHECK(args->chunk.ring.rows_per_slot > 0, STATUS_BAD_SHAPE, "commit_rows: the ring has no rows");
    return op_queue_submit(queue, OP_COMMIT_ROWS, args);
}
