/*
 * One launch of one entry on one case, with a workspace of exactly the size that it asked for.
 */
#ifndef SLUICE_KERNELCHECK_KERNEL_RUN_H
#define SLUICE_KERNELCHECK_KERNEL_RUN_H

#include <stdbool.h>

#include "base/worker_pool.h"
#include "kernelcheck/kernel_case.h"
#include "ops/op_queue.h"

/* Workspace between launches: device memory with canaries around `bytes`. */
struct kernel_workspace {
    void *memory;
    size_t bytes; /* asked for by the entry */
    size_t total;
};

/* NaN everywhere. Nothing is allocated if the entry needs none. Owned: kernel_workspace_deinit. */
enum status kernel_workspace_init(struct kernel_workspace *out, const struct kernel_case *kernel_case,
                                  const struct op_entry *entry, const struct worker_pool *pool);
void kernel_workspace_deinit(struct kernel_workspace *workspace, const struct kernel_case *kernel_case);

/* Whether the canaries are as they were. */
enum status kernel_workspace_check(const struct kernel_workspace *workspace,
                                   const struct kernel_case *kernel_case, bool *is_damaged);

/* Launches the entry; `pool` NULL: one thread. */
enum status kernel_launch(const struct kernel_case *kernel_case, const struct op_entry *entry,
                          struct worker_pool *pool, const struct kernel_workspace *workspace);

/* Uploads, launches, downloads. `is_damaged`: bytes around the workspace have changed. */
enum status kernel_run(struct kernel_case *kernel_case, const struct op_entry *entry,
                       struct worker_pool *pool, bool *is_damaged);

#endif
