/* What the files of the metrics share. */
#ifndef SLUICE_SERVER_METRICS_INTERNAL_H
#define SLUICE_SERVER_METRICS_INTERNAL_H

#include <pthread.h>

#include "server/metrics.h"

enum { HISTOGRAM_BOUNDS_MAX = 40, REPLY_CLASS_COUNT = 5 };

enum metrics_histogram {
    HISTOGRAM_FIRST_TOKEN,
    HISTOGRAM_INTER_TOKEN,
    HISTOGRAM_TIME_PER_TOKEN,
    HISTOGRAM_TOTAL,
    HISTOGRAM_QUEUE,
    HISTOGRAM_INFERENCE,
    HISTOGRAM_PREFILL,
    HISTOGRAM_DECODE,
    HISTOGRAM_PROMPT_TOKENS,
    HISTOGRAM_TOKENS,
    HISTOGRAM_LONGEST_TOKENS,
    HISTOGRAM_CHOICES,
    HISTOGRAM_TOKEN_LIMIT,
    HISTOGRAM_COUNT,
};

struct histogram {
    size_t bound_count;
    double bounds[HISTOGRAM_BOUNDS_MAX];
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* of values up to the bound and above the one before */
    double sum;
};

struct metrics {
    pthread_mutex_t mutex; /* guards all that follows */
    struct histogram histograms[HISTOGRAM_COUNT];
    uint64_t prompt_tokens, cached_prompt_tokens, tokens;
    uint64_t finished[METRICS_FINISH_COUNT];
    uint64_t corrupted;
    uint64_t rejected;
    uint64_t replies[REPLY_CLASS_COUNT]; /* by the first digit of the status, from 1 on */
};

#endif
