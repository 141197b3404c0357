/* A failed allocation is remembered, so that what measures need not look. */
#include "tools/bench_samples.h"

#include <stdlib.h>

void bench_samples_deinit(struct bench_samples *samples) {
    free(samples->values);
    *samples = (struct bench_samples){0};
}

void bench_samples_clear(struct bench_samples *samples) {
    samples->count = 0;
}

void bench_samples_add(struct bench_samples *samples, double value) {
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity == 0 ? 64 : 2 * samples->capacity;
        double *values = realloc(samples->values, capacity * sizeof *values);
        samples->is_failed = samples->is_failed || values == NULL;
        if (values == NULL) {
            return;
        }
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = value;
}

void bench_samples_add_all(struct bench_samples *samples, const struct bench_samples *others) {
    for (size_t i = 0; i < others->count; i++) {
        bench_samples_add(samples, others->values[i]);
    }
    samples->is_failed = samples->is_failed || others->is_failed;
}

enum status bench_samples_check(const struct bench_samples *samples) {
    CHECK(!samples->is_failed, STATUS_OUT_OF_MEMORY, "out of memory");
    return STATUS_OK;
}

static int compare_values(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const struct bench_samples *samples, double share) {
    double place = share * (double)(samples->count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < samples->count ? below + 1 : below;
    double part = place - (double)below;
    return samples->values[below] + part * (samples->values[above] - samples->values[below]);
}

struct bench_summary bench_samples_summarise(struct bench_samples *samples) {
    double sum = 0.0;
    if (samples->count == 0) {
        return (struct bench_summary){0};
    }
    qsort(samples->values, samples->count, sizeof *samples->values, compare_values);
    for (size_t i = 0; i < samples->count; i++) {
        sum += samples->values[i];
    }
    return (struct bench_summary){sum / (double)samples->count, percentile(samples, 0.5),
                                  percentile(samples, 0.9), percentile(samples, 0.99)};
}
