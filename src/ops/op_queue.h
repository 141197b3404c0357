/*
 * Where operations go: a table of entries chosen at load, a stream, and the step arena.
 *
 * Each op_<name> function checks its contract and submits; the queue finds the entry, gives it workspace
 * from the step arena, and launches it on the stream. A dry queue checks and counts memory but launches
 * nothing: one dry run at load walks every path and sizes the arena.
 */
#ifndef SLUICE_OPS_OP_QUEUE_H
#define SLUICE_OPS_OP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/worker_pool.h"
#include "device/device.h"
#include "ops/device_arena.h"
#include "ops/op_list.h"

/* What a kernel gets besides its arguments. */
struct kernel_env {
    struct stream *stream;
    struct worker_pool *pool; /* host threads; NULL for one */
    void *workspace;          /* device memory, as many bytes as workspace_bytes asked for */
};

/* One implementation of one operation. `args` is the struct <name>_args of the operation's header. */
struct op_entry {
    enum op_id op;
    const char *name; /* "linear_ideal_reference" */
    enum status (*run)(const struct kernel_env *env, const void *args);
    size_t (*workspace_bytes)(const void *args, unsigned thread_count); /* NULL: none */
};

/* The entries of one backend in one numerics mode, indexed by operation. */
struct op_table {
    const struct op_entry *entries[OP_COUNT];
};

struct op_queue {
    const struct op_table *table;
    struct stream *stream; /* NULL in a dry queue */
    struct worker_pool *pool;
    struct device_arena *arena;
    bool is_dry;
};

/* UNSUPPORTED naming the first operation that the table lacks. `backend` is for the sentence. */
enum status op_table_check(const struct op_table *table, const char *backend);

/* Launches the table's entry. Called by the op_<name> functions after their checks. */
enum status op_queue_submit(struct op_queue *queue, enum op_id op, const void *args);

#endif
