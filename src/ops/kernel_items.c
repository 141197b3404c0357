/* A loop, or a run of the worker pool. */
#include "ops/kernel_items.h"

/*
 * Items are handed out in runs of neighbours, a few for each thread: neighbours often lie side by side in
 * memory, where one's end is the other's start, and the threads still even out.
 */
enum { RUNS_PER_THREAD = 4 };

struct item_run {
    void (*item)(const void *context, int64_t index, void *workspace);
    const void *context;
    char *workspaces;
    size_t workspace_bytes;
    int64_t count;
    int64_t run_length;
};

static void run_some(void *context, size_t index, unsigned worker) {
    const struct item_run *run = context;
    int64_t first = (int64_t)index * run->run_length;
    int64_t end = first + run->run_length < run->count ? first + run->run_length : run->count;
    for (int64_t i = first; i < end; i++) {
        run->item(run->context, i, run->workspaces + worker * run->workspace_bytes);
    }
}

void kernel_for_each_item(const struct kernel_env *env, int64_t count,
                          void (*item)(const void *context, int64_t index, void *workspace),
                          const void *context, void *workspaces, size_t workspace_bytes) {
    struct item_run run = {item, context, workspaces, workspace_bytes, count, count};
    if (env->pool == NULL || count <= 1) {
        run_some(&run, 0, 0);
        return;
    }
    int64_t runs = RUNS_PER_THREAD * (int64_t)worker_pool_thread_count(env->pool);
    run.run_length = (count + runs - 1) / runs;
    worker_pool_run(env->pool, (size_t)((count + run.run_length - 1) / run.run_length), run_some, &run);
}
