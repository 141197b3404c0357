/* One task a tensor; tensors go to the pool in batches, so that the progress bar moves between them. */
#include "tools/verify.h"

#include <stdlib.h>

#include "base/progress.h"
#include "base/worker_pool.h"

static const size_t batch_bytes_min = (size_t)256 << 20;

struct scan {
    const struct checkpoint *checkpoint;
    const struct tensor_spec *const *specs;
    struct payload_problem *problems; /* per tensor of the checkpoint; count 0: none */
    size_t first;                     /* of the running batch */
};

static void scan_tensor(void *context, size_t index, unsigned worker) {
    (void)worker;
    struct scan *scan = context;
    size_t i = scan->first + index;
    const struct checkpoint_tensor *tensor = &scan->checkpoint->tensors[i];
    payload_find_problem(scan->specs[i], tensor->dtype, checkpoint_tensor_data(scan->checkpoint, tensor),
                         tensor->bytes, &scan->problems[i]);
}

static void scan_all(struct scan *scan, struct worker_pool *pool) {
    const struct checkpoint *checkpoint = scan->checkpoint;
    struct progress progress;
    size_t done = 0;
    progress_start(&progress, "checking weights", "MB", checkpoint->tensor_bytes / 1000000);
    while (scan->first < checkpoint->tensor_count) {
        size_t bytes = 0;
        size_t end = scan->first;
        while (end < checkpoint->tensor_count && bytes < batch_bytes_min) {
            bytes += checkpoint->tensors[end++].bytes;
        }
        worker_pool_run(pool, end - scan->first, scan_tensor, scan);
        scan->first = end;
        done += bytes;
        progress_update(&progress, done / 1000000);
    }
    progress_finish(&progress);
}

static enum status collect(const struct scan *scan, struct verify_result *out) {
    for (size_t i = 0; i < scan->checkpoint->tensor_count; i++) {
        out->count += scan->problems[i].count > 0;
    }
    out->problems = calloc(out->count + 1, sizeof *out->problems);
    CHECK_MEMORY(out->problems);
    struct verify_problem *next = out->problems;
    for (size_t i = 0; i < scan->checkpoint->tensor_count; i++) {
        if (scan->problems[i].count > 0) {
            *next++ = (struct verify_problem){&scan->checkpoint->tensors[i], scan->problems[i]};
        }
    }
    return STATUS_OK;
}

enum status verify_payload(const struct checkpoint *checkpoint, const struct tensor_spec *const *specs,
                           unsigned thread_count, struct verify_result *out) {
    enum status status = STATUS_OK;
    struct worker_pool *pool = NULL;
    struct scan scan = {.checkpoint = checkpoint, .specs = specs};
    *out = (struct verify_result){0};
    scan.problems = calloc(checkpoint->tensor_count + 1, sizeof *scan.problems);
    CHECK_MEMORY_GOTO(scan.problems);
    TRY_GOTO(worker_pool_create(thread_count, &pool));
    scan_all(&scan, pool);
    TRY_GOTO(collect(&scan, out));
fail:
    worker_pool_destroy(&pool);
    free(scan.problems);
    return status;
}

void verify_result_deinit(struct verify_result *result) {
    free(result->problems);
    *result = (struct verify_result){0};
}
