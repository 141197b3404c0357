/*
 * Where operations go: a table of entries chosen at load, a stream, and the step arena.
 *
 * Each op_<name> function checks its contract and submits; the queue finds the entry, gives it workspace
 * from the step arena, and launches it on the stream. A dry queue checks and counts memory but launches
 * nothing: one dry run at load walks every path and sizes the arena.
 */
#ifndef SLUICE_OPS_OP_QUEUE_H
#define SLUICE_OPS_OP_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Modes that an entry serves: bits by enum numerics. */
enum { OP_MODE_IDEAL = 1, OP_MODE_NATIVE = 2, OP_MODE_BOTH = OP_MODE_IDEAL | OP_MODE_NATIVE };

/*
 * One implementation of one operation. `args` is the struct <name>_args of the operation's header.
 *
 * Entries of an operation with the same `arithmetic` give the same bits. Which entry runs may depend on types
 * and formats of the arguments, never on how many rows there are.
 */
struct op_entry {
    enum op_id op;
    const char *name;       /* "linear_ideal_reference" */
    const char *arithmetic; /* "reference" */
    unsigned modes;         /* OP_MODE_... */
    unsigned features;      /* what the processor must have, bits of its backend; 0: nothing */
    enum status (*run)(const struct kernel_env *env, const void *args);
    size_t (*workspace_bytes)(const void *args, unsigned thread_count); /* NULL: none */
    bool (*can_run)(const void *args);                                  /* NULL: any arguments */
};

enum { OP_CANDIDATES_MAX = 6 };

/* The entries of one backend in one numerics mode: per operation the candidates in order of preference. */
struct op_table {
    const struct op_entry *entries[OP_COUNT][OP_CANDIDATES_MAX]; /* NULL behind the last */
};

/*
 * Fills the table from a list in order of preference: entries of the mode whose features are all in
 * `features`. Of an operation with several entries, those after one without can_run are left out.
 */
void op_table_build(struct op_table *table, const struct op_entry *const *entries, size_t count,
                    unsigned mode, unsigned features);

/* What a queue is at, for other threads to read. Zeroed: nothing yet. */
struct op_pulse {
    atomic_int op;              /* being launched: 1 + enum op_id; 0: none */
    atomic_uint_fast64_t count; /* of launches */
};

struct op_queue {
    const struct op_table *table;
    struct stream *stream; /* NULL in a dry queue */
    struct worker_pool *pool;
    struct device_arena *arena;
    struct op_pulse *pulse; /* borrowed; NULL: nobody looks */
    bool is_dry;
};

/* UNSUPPORTED naming the first operation that the table lacks. `backend` is for the sentence. */
enum status op_table_check(const struct op_table *table, const char *backend);

/* The candidate that runs these arguments, NULL if none can. */
const struct op_entry *op_table_choose(const struct op_table *table, enum op_id op, const void *args);

/* Launches the first candidate that can run. Called by the op_<name> functions after their checks. */
enum status op_queue_submit(struct op_queue *queue, enum op_id op, const void *args);

#endif
