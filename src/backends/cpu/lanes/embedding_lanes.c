/* Table lookup. */
#include "ops/embedding.h"

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"

static void embed_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct embedding_args *args = context;
    const struct weight *table = args->table;
    int64_t copies = args->out.shape[1];
    int64_t width = table->columns;
    int64_t id = args->ids[row];
    id = id < 0 ? 0 : id;
    id = id < table->rows ? id : table->rows - 1;
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece values = piece_read(table->dtype, table->data, id * width + i, width - i);
        for (int64_t copy = 0; copy < copies; copy++) {
            piece_write(args->out.dtype, args->out.data, (row * copies + copy) * width + i, width - i,
                        values);
        }
    }
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct embedding_args *args = arguments;
    int64_t row_bytes = tensor_row_elements(&args->out) * (int64_t)dtype_bytes(args->out.dtype);
    lanes_for_each_row(env, args->out.shape[0], row_bytes, embed_row, args, NULL, 0);
    return STATUS_OK;
}

const struct op_entry LANES_NAME(embedding) = {
    .op = OP_EMBEDDING, LANES_ENTRY(embedding), .modes = OP_MODE_BOTH, .run = run};
