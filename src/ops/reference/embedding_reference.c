/* Table lookup. */
#include "ops/embedding.h"
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"

static void embed_row(const void *context, int64_t row, void *workspace) {
    const struct embedding_args *args = context;
    const struct weight *table = args->table;
    float *values = workspace;
    int64_t id = args->ids[row];
    id = id < 0 ? 0 : id;
    id = id < table->rows ? id : table->rows - 1;
    weight_decode_row(table, id, values);
    int64_t copies = args->out.shape[1];
    for (int64_t copy = 0; copy < copies; copy++) {
        reference_write(&args->out, (row * copies + copy) * table->columns, table->columns, values);
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    const struct embedding_args *args = arguments;
    return thread_count * kernel_float_bytes(args->table->columns);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct embedding_args *args = arguments;
    kernel_for_each_item(env, args->out.shape[0], embed_row, args, env->workspace,
                         kernel_float_bytes(args->table->columns));
    return STATUS_OK;
}

const struct op_entry embedding_reference = {
    .op = OP_EMBEDDING,
    .name = "embedding_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
