/*
 * What this machine can do at most: the limits that kernels are measured against, taken in the same run.
 */
#ifndef SLUICE_KERNELCHECK_ROOFLINE_H
#define SLUICE_KERNELCHECK_ROOFLINE_H

#include "base/status.h"
#include "base/worker_pool.h"

struct roofline {
    double read_bytes_per_second; /* main memory, all threads of the pool */
    double f32_flops_per_second;  /* multiply-adds count twice */
    double bf16_flops_per_second; /* bf16 dot products; 0 where `features` have none */
};

/*
 * Measures with all threads of the pool (NULL: the caller alone) and the instruction sets in `features`.
 * Takes about half a second and 256 MB of memory.
 */
enum status roofline_measure(struct worker_pool *pool, unsigned features, struct roofline *out);

enum { ROOFLINE_READ_BYTES = 256 << 20 }; /* far beyond the caches */

/* The read limit alone, over `memory` of ROOFLINE_READ_BYTES that was written to: a tenth of a second. */
double roofline_read_rate(struct worker_pool *pool, unsigned features, const void *memory);

#endif
