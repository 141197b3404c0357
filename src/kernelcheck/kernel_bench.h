/*
 * Times every kernel at the shapes of a model: decode with 1, 4 and 16 rows, prefill with 128 and 512.
 *
 * The shapes are those of one layer of a model with 2048 channels, 32 heads of 512 and 64 experts. Operands
 * of more than a megabyte are out of the caches when a launch starts, as weights are in a real step; smaller
 * ones are in them.
 */
#ifndef SLUICE_KERNELCHECK_KERNEL_BENCH_H
#define SLUICE_KERNELCHECK_KERNEL_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/worker_pool.h"
#include "device/device.h"
#include "kernelcheck/roofline.h"
#include "ops/numerics.h"
#include "ops/op_queue.h"

struct kernel_timing {
    const struct op_entry *entry;
    enum numerics numerics;
    const char *label; /* of the shape; may be "" */
    int64_t rows;
    bool is_prefill;
    bool is_cold;         /* operands came from memory */
    double seconds;       /* of one launch: the fastest of several */
    double bytes;         /* that a launch has to touch */
    double operations;    /* multiplications and additions; 0 where they do not matter */
    double limit_seconds; /* what the machine's limits allow; 0 where they say nothing */
};

struct kernel_bench_request {
    const struct op_entry *const *entries;
    size_t entry_count;
    unsigned features;
    uint64_t operations; /* bit per enum op_id */
    uint64_t seed;
    struct device *device;
    struct worker_pool *pool;
    struct roofline roofline;
    /* Called for each timing, on the caller's thread. */
    enum status (*report)(void *context, const struct kernel_timing *timing);
    void *report_context;
};

/* Entries that would take seconds for a launch are timed at fewer rows only. */
enum status kernel_bench_run(const struct kernel_bench_request *request);

#endif
