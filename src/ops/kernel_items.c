/* A loop, or a run of the worker pool. */
#include "ops/kernel_items.h"

struct item_run {
    void (*item)(const void *context, int64_t index, void *workspace);
    const void *context;
    char *workspaces;
    size_t workspace_bytes;
};

static void run_one(void *context, size_t index, unsigned worker) {
    const struct item_run *run = context;
    run->item(run->context, (int64_t)index, run->workspaces + worker * run->workspace_bytes);
}

void kernel_for_each_item(const struct kernel_env *env, int64_t count,
                          void (*item)(const void *context, int64_t index, void *workspace),
                          const void *context, void *workspaces, size_t workspace_bytes) {
    struct item_run run = {item, context, workspaces, workspace_bytes};
    if (env->pool != NULL && count > 1) {
        worker_pool_run(env->pool, (size_t)count, run_one, &run);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        run_one(&run, (size_t)i, 0);
    }
}
