/* Contract of the embedding lookup. */
#include "ops/embedding.h"

enum status op_embedding(struct op_queue *queue, const struct embedding_args *args) {
    const struct weight *table = args->table;
    TENSOR_EXPECT(&args->out, "embedding: out", DTYPES_ACTIVATION, -1, -1, table->columns);
    TRY(weight_expect_plain(table, "embedding: table", -1, -1));
    return op_queue_submit(queue, OP_EMBEDDING, args);
}
