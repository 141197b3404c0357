/* A loop, or a run of the worker pool. */
#include "ops/kernel_items.h"

/*
 * Items are handed out in runs of neighbours: they often lie side by side in memory, where one's end is the
 * other's start. Each thread begins with one long run, half its share; short ones even out the rest.
 */
enum { SHORT_RUNS_PER_THREAD = 4 };

struct item_run {
    void (*item)(const void *context, int64_t index, void *workspace);
    const void *context;
    char *workspaces;
    size_t workspace_bytes;
    int64_t count;
    int64_t long_runs; /* how many there are; the first ones */
    int64_t long_length;
    int64_t short_length;
};

/* First item of run `index`. */
static int64_t first_of(const struct item_run *run, int64_t index) {
    int64_t long_count = index < run->long_runs ? index : run->long_runs;
    int64_t first = long_count * run->long_length + (index - long_count) * run->short_length;
    return first < run->count ? first : run->count;
}

static void run_some(void *context, size_t index, unsigned worker) {
    const struct item_run *run = context;
    int64_t end = first_of(run, (int64_t)index + 1);
    for (int64_t i = first_of(run, (int64_t)index); i < end; i++) {
        run->item(run->context, i, run->workspaces + worker * run->workspace_bytes);
    }
}

void kernel_for_each_item(const struct kernel_env *env, int64_t count,
                          void (*item)(const void *context, int64_t index, void *workspace),
                          const void *context, void *workspaces, size_t workspace_bytes) {
    struct item_run run = {item,  context,        workspaces,          workspace_bytes,
                           count, .long_runs = 1, .long_length = count};
    if (env->pool == NULL || count <= 1) {
        run_some(&run, 0, 0);
        return;
    }
    int64_t threads = worker_pool_thread_count(env->pool);
    int64_t short_runs = SHORT_RUNS_PER_THREAD * threads;
    run.long_length = count / 2 / threads;
    run.long_runs = run.long_length > 0 ? threads : 0;
    int64_t left = count - run.long_runs * run.long_length;
    run.short_length = (left + short_runs - 1) / short_runs;
    short_runs = run.short_length > 0 ? (left + run.short_length - 1) / run.short_length : 0;
    worker_pool_run(env->pool, (size_t)(run.long_runs + short_runs), run_some, &run);
}
