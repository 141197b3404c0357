/* Contract of attention over window and compressed entries. */
#include "ops/sparse_attention.h"

int64_t sparse_attention_key_limit(const struct sparse_attention_args *args) {
    int64_t compressed = 0;
    if (args->selection.rank != 0) {
        compressed = args->selection.shape[1];
    } else if (args->ratio > 0) {
        compressed = args->entries.rows_per_slot;
    }
    return args->window + compressed;
}

enum status op_sparse_attention(struct op_queue *queue, const struct sparse_attention_args *args) {
    const struct tensor *queries = &args->queries;
    const struct row_layout *layout = &args->window_rows.ring.layout;
    const struct row_layout *entries = &args->entries.layout;
    int64_t width = layout->width;
    TENSOR_EXPECT(queries, "sparse_attention: queries", DTYPES_ACTIVATION, args->batch->row_count, -1, width);
    TENSOR_EXPECT(&args->out, "sparse_attention: out", DTYPE_BIT(queries->dtype), queries->shape[0],
                  queries->shape[1], width);
    TRY(weight_expect_plain(args->sink, "sparse_attention: sink", 1, queries->shape[1]));
    CHECK(args->window_rows.ring.rows_per_slot >= args->window, STATUS_BAD_SHAPE,
          "sparse_attention: a ring of %lld rows is too short for window %lld",
          (long long)args->window_rows.ring.rows_per_slot, (long long)args->window);
    CHECK(args->ratio == 0 || (entries->encoding == layout->encoding && entries->width == width &&
                               entries->plain_width == layout->plain_width),
          STATUS_BAD_SHAPE, "sparse_attention: entries of another layout than the window's");
    CHECK(args->ratio == 0 || args->entries.rows_per_page > 0, STATUS_BAD_SHAPE,
          "sparse_attention: entries without pages");
    if (args->selection.rank != 0) {
        TENSOR_EXPECT(&args->selection, "sparse_attention: selection", DTYPE_BIT(DTYPE_I32),
                      queries->shape[0], -1);
    }
    return op_queue_submit(queue, OP_SPARSE_ATTENTION, args);
}
