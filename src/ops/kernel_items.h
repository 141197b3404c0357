/*
 * For kernels that run on the host: sharing out numbered items over the queue's threads.
 *
 * An item's result may depend on its number only; each thread gets a workspace of its own.
 */
#ifndef SLUICE_OPS_KERNEL_ITEMS_H
#define SLUICE_OPS_KERNEL_ITEMS_H

#include <stddef.h>
#include <stdint.h>

#include "ops/op_queue.h"

/* Bytes of a part of a workspace in whole cache lines: parts start aligned, and threads do not share a line.
 */
static inline size_t kernel_workspace_bytes(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

/* The same of `count` floats. */
static inline size_t kernel_float_bytes(int64_t count) {
    return kernel_workspace_bytes((size_t)count * sizeof(float));
}

/* Calls item(context, index, workspace) for each index below `count` and returns when all are done. */
void kernel_for_each_item(const struct kernel_env *env, int64_t count,
                          void (*item)(const void *context, int64_t index, void *workspace),
                          const void *context, void *workspaces, size_t workspace_bytes);

#endif
