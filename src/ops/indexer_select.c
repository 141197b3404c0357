/* Contract of the indexer's selection. */
#include "ops/indexer_select.h"

enum status op_indexer_select(struct op_queue *queue, const struct indexer_select_args *args) {
    const struct tensor *queries = &args->queries;
    TENSOR_EXPECT(queries, "indexer_select: queries", DTYPES_ACTIVATION, args->batch->row_count, -1,
                  args->keys.layout.width);
    TENSOR_EXPECT(&args->head_weights, "indexer_select: head weights", DTYPE_BIT(queries->dtype),
                  queries->shape[0], queries->shape[1]);
    TENSOR_EXPECT(&args->selection, "indexer_select: selection", DTYPE_BIT(DTYPE_I32), queries->shape[0], -1);
    CHECK(args->selection.shape[1] > 0, STATUS_BAD_SHAPE, "indexer_select: selection of no entries");
    CHECK(args->ratio > 0, STATUS_BAD_SHAPE, "indexer_select: ratio %lld", (long long)args->ratio);
    CHECK(args->keys.rows_per_page > 0, STATUS_BAD_SHAPE, "indexer_select: keys without pages");
    return op_queue_submit(queue, OP_INDEXER_SELECT, args);
}
