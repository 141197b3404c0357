/* Medians of an even count are the mean of the middle two. */
#include "tools/bench_numbers.h"

#include <stdlib.h>

static int compare_samples(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

struct bench_spread bench_spread_of(double *samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, compare_samples);
    double median = (samples[(count - 1) / 2] + samples[count / 2]) / 2.0;
    return (struct bench_spread){.median = median, .minimum = samples[0], .maximum = samples[count - 1]};
}

double bench_rate(double count, double seconds) {
    return seconds > 0.0 ? count / seconds : 0.0;
}

int64_t bench_numbers_largest(const struct bench_numbers *numbers) {
    int64_t value = 1;
    for (int i = 0; i < numbers->count; i++) {
        value = numbers->values[i] > value ? numbers->values[i] : value;
    }
    return value;
}
