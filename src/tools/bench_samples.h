/* Times that were measured, and what is said of them. */
#ifndef SLUICE_TOOLS_BENCH_SAMPLES_H
#define SLUICE_TOOLS_BENCH_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct bench_samples {
    double *values; /* owned */
    size_t count, capacity;
    bool is_failed; /* memory was out */
};

struct bench_summary {
    double mean, median, p90, p99; /* 0 without samples */
};

void bench_samples_deinit(struct bench_samples *samples);
void bench_samples_clear(struct bench_samples *samples);
void bench_samples_add(struct bench_samples *samples, double value);
void bench_samples_add_all(struct bench_samples *samples, const struct bench_samples *others);

/* OUT_OF_MEMORY if anything could not be added. */
enum status bench_samples_check(const struct bench_samples *samples);

/* Sorts the samples. Percentiles lie between two samples where they must, in proportion (as numpy does). */
struct bench_summary bench_samples_summarise(struct bench_samples *samples);

#endif
