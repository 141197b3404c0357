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
        CHECK(table->entries[op][0] != NULL, STATUS_UNSUPPORTED, "the %s backend has no implementation of %s",
              backend, op_name((enum op_id)op));
    }
    return STATUS_OK;
}

static void add_candidate(struct op_table *table, const struct op_entry *entry) {
    const struct op_entry **candidates = table->entries[entry->op];
    int count = 0;
    while (count < OP_CANDIDATES_MAX && candidates[count] != NULL) {
        if (candidates[count]->can_run == NULL) {
            return;
        }
        count++;
    }
    if (count < OP_CANDIDATES_MAX) {
        candidates[count] = entry;
    }
}

void op_table_build(struct op_table *table, const struct op_entry *const *entries, size_t count,
                    unsigned mode, unsigned features) {
    *table = (struct op_table){0};
    for (size_t i = 0; i < count; i++) {
        if ((entries[i]->modes & mode) != 0 && (entries[i]->features & ~features) == 0) {
            add_candidate(table, entries[i]);
        }
    }
}

const struct op_entry *op_table_choose(const struct op_table *table, enum op_id op, const void *args) {
    for (int i = 0; i < OP_CANDIDATES_MAX && table->entries[op][i] != NULL; i++) {
        const struct op_entry *entry = table->entries[op][i];
        if (entry->can_run == NULL || entry->can_run(args)) {
            return entry;
        }
    }
    return NULL;
}

static enum status launch(const struct op_queue *queue, const struct op_entry *entry, void *workspace,
                          const void *args) {
    struct kernel_env env = {.stream = queue->stream, .pool = queue->pool, .workspace = workspace};
    if (queue->pulse != NULL) {
        atomic_store_explicit(&queue->pulse->op, 1 + (int)entry->op, memory_order_relaxed);
        atomic_fetch_add_explicit(&queue->pulse->count, 1, memory_order_relaxed);
    }
    stream_kernel_enter(queue->stream);
    enum status status = entry->run(&env, args);
    stream_kernel_leave(queue->stream);
    if (queue->pulse != NULL) {
        atomic_store_explicit(&queue->pulse->op, 0, memory_order_relaxed);
    }
    return status;
}

enum status op_queue_submit(struct op_queue *queue, enum op_id op, const void *args) {
    const struct op_entry *entry = op_table_choose(queue->table, op, args);
    CHECK(entry != NULL, STATUS_UNSUPPORTED, "no implementation of %s takes these types", op_name(op));
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
