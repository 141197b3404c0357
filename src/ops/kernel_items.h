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

/* Calls item(context, index, workspace) for each index below `count` and returns when all are done. */
void kernel_for_each_item(const struct kernel_env *env, int64_t count,
                          void (*item)(const void *context, int64_t index, void *workspace),
                          const void *context, void *workspaces, size_t workspace_bytes);

#endif
