/* Finding and launching entries. */
#include "ops/op_queue.h"

#include "device/device_impl.h"

const char *op_name(enum op_id op) {
    static const char *const names[OP_COUNT] = {
#define X(CONSTANT, name) [OP_##CONSTANT] = #name,
        OP_LIST(X)
#undef X
    };
    return names[op];
}

enum status op_table_check(const struct op_table *table, const char *backend) {
    for (int op = 0; op < OP_COUNT; op++) {
        CHECK(table->entries[op] != NULL, STATUS_UNSUPPORTED, "the %s backend has no implementation of %s",
              backend, op_name((enum op_id)op));
    }
    return STATUS_OK;
}

static enum status launch(const struct op_queue *queue, const struct op_entry *entry, void *workspace,
                          const void *args) {
    struct kernel_env env = {.stream = queue->stream, .pool = queue->pool, .workspace = workspace};
    stream_kernel_enter(queue->stream);
    enum status status = entry->run(&env, args);
    stream_kernel_leave(queue->stream);
    return status;
}

enum status op_queue_submit(struct op_queue *queue, enum op_id op, const void *args) {
    const struct op_entry *entry = queue->table->entries[op];
    unsigned thread_count = queue->pool == NULL ? 1 : worker_pool_thread_count(queue->pool);
    size_t mark = device_arena_mark(queue->arena);
    void *workspace = NULL;
    if (entry->workspace_bytes != NULL) {
        TRY(device_arena_alloc(queue->arena, entry->workspace_bytes(args, thread_count), &workspace));
    }
    enum status status = queue->is_dry ? STATUS_OK : launch(queue, entry, workspace, args);
    device_arena_release(queue->arena, mark);
    if (status != STATUS_OK) {
        return error_forward(status, (struct error_frame){__FILE__, entry->name, __LINE__});
    }
    return STATUS_OK;
}
