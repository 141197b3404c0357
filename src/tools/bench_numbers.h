/* Numbers in and out of benchmarks: what to measure, and repeats summed up. */
#ifndef SLUICE_TOOLS_BENCH_NUMBERS_H
#define SLUICE_TOOLS_BENCH_NUMBERS_H

#include <stdint.h>

enum { BENCH_NUMBERS_MAX = 32 };

struct bench_numbers {
    int64_t values[BENCH_NUMBERS_MAX];
    int count;
};

/* Over the repeats. */
struct bench_spread {
    double median;
    double minimum;
    double maximum;
};

/* `count` at least 1; the samples are sorted. */
struct bench_spread bench_spread_of(double *samples, int count);

/* `count` per second; 0 where no time is known. */
double bench_rate(double count, double seconds);

/* The largest number, 1 at least. */
int64_t bench_numbers_largest(const struct bench_numbers *numbers);

#endif
