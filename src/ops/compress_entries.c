/* Contract of the compressor's pooling. */
#include "ops/compress_entries.h"

enum status op_compress_entries(struct op_queue *queue, const struct compress_entries_args *args) {
    int64_t raw_width = args->has_overlap ? 2 * args->width : args->width;
    const struct state_rows *ring = &args->raw.ring;
    CHECK(ring->layout.encoding == ROW_F32 && ring->layout.width == 2 * raw_width, STATUS_BAD_SHAPE,
          "compress_entries: raw rows do not hold %lld values and scores", (long long)raw_width);
    CHECK(args->entries.layout.width == args->width, STATUS_BAD_SHAPE,
          "compress_entries: entries of another width");
    CHECK(args->ratio > 0, STATUS_BAD_SHAPE, "compress_entries: ratio %lld", (long long)args->ratio);
    CHECK(ring->rows_per_slot >= args->ratio * (args->has_overlap ? 2 : 1), STATUS_BAD_SHAPE,
          "compress_entries: a ring of %lld rows is too short for ratio %lld", (long long)ring->rows_per_slot,
          (long long)args->ratio);
    CHECK(args->entries.rows_per_page > 0, STATUS_BAD_SHAPE, "compress_entries: entries without pages");
    TRY(weight_expect_plain(args->norm, "compress_entries: norm", 1, args->width));
    return op_queue_submit(queue, OP_COMPRESS_ENTRIES, args);
}
