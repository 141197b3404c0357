/* Recording. One lock: what it guards takes less time than taking it. */
#include "server/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "server/metrics_internal.h"

static const double first_token_bounds[] = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                            0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                            20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
static const double token_time_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                           0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
static const double request_time_bounds[] = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                             5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                             60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
static const double choice_bounds[] = {1, 2, 5, 10, 20};

static void set_bounds(struct histogram *histogram, const double *bounds, size_t count) {
    memcpy(histogram->bounds, bounds, count * sizeof *bounds);
    histogram->bound_count = count;
}

/* 1, 2, 5, 10, 20, 50, ... up to `most`. */
static void set_count_bounds(struct histogram *histogram, double most) {
    static const double steps[] = {1, 2, 5};
    double scale = 1;
    while (histogram->bound_count < HISTOGRAM_BOUNDS_MAX) {
        double bound = steps[histogram->bound_count % 3] * scale;
        if (bound > most) {
            return;
        }
        histogram->bounds[histogram->bound_count++] = bound;
        scale *= histogram->bound_count % 3 == 0 ? 10 : 1;
    }
}

#define SET_BOUNDS(which, bounds) \
    set_bounds(&metrics->histograms[which], bounds, sizeof bounds / sizeof bounds[0])

enum status metrics_create(int64_t context_tokens, struct metrics **out) {
    static const enum metrics_histogram of_requests[] = {
        HISTOGRAM_TOTAL, HISTOGRAM_QUEUE, HISTOGRAM_INFERENCE, HISTOGRAM_PREFILL, HISTOGRAM_DECODE};
    static const enum metrics_histogram of_counts[] = {HISTOGRAM_PROMPT_TOKENS, HISTOGRAM_TOKENS,
                                                       HISTOGRAM_LONGEST_TOKENS, HISTOGRAM_TOKEN_LIMIT};
    struct metrics *metrics = calloc(1, sizeof *metrics);
    CHECK_MEMORY(metrics);
    pthread_mutex_init(&metrics->mutex, NULL);
    SET_BOUNDS(HISTOGRAM_FIRST_TOKEN, first_token_bounds);
    SET_BOUNDS(HISTOGRAM_INTER_TOKEN, token_time_bounds);
    SET_BOUNDS(HISTOGRAM_TIME_PER_TOKEN, token_time_bounds);
    SET_BOUNDS(HISTOGRAM_CHOICES, choice_bounds);
    for (size_t i = 0; i < sizeof of_requests / sizeof *of_requests; i++) {
        SET_BOUNDS(of_requests[i], request_time_bounds);
    }
    for (size_t i = 0; i < sizeof of_counts / sizeof *of_counts; i++) {
        set_count_bounds(&metrics->histograms[of_counts[i]], (double)context_tokens);
    }
    *out = metrics;
    return STATUS_OK;
}

void metrics_destroy(struct metrics **metrics) {
    if (*metrics != NULL) {
        pthread_mutex_destroy(&(*metrics)->mutex);
        free(*metrics);
        *metrics = NULL;
    }
}

static void observe(struct metrics *metrics, enum metrics_histogram which, double value, uint64_t times) {
    struct histogram *histogram = &metrics->histograms[which];
    size_t i = 0;
    while (i < histogram->bound_count && value > histogram->bounds[i]) {
        i++;
    }
    histogram->counts[i] += times;
    histogram->sum += value * (double)times;
}

void metrics_record_tokens(struct metrics *metrics, const struct metrics_tokens *tokens) {
    if (metrics == NULL || tokens->count == 0) {
        return;
    }
    pthread_mutex_lock(&metrics->mutex);
    metrics->tokens += tokens->count;
    if (tokens->is_first) {
        observe(metrics, HISTOGRAM_FIRST_TOKEN, tokens->seconds, 1);
    } else {
        observe(metrics, HISTOGRAM_INTER_TOKEN, tokens->seconds / (double)tokens->count, tokens->count);
    }
    pthread_mutex_unlock(&metrics->mutex);
}

/* The times of an answer that has a token. */
static void observe_phases(struct metrics *metrics, const struct metrics_request *request) {
    double decode = request->last_token_seconds - request->first_token_seconds;
    observe(metrics, HISTOGRAM_QUEUE, request->queue_seconds, 1);
    observe(metrics, HISTOGRAM_PREFILL, request->first_token_seconds - request->queue_seconds, 1);
    observe(metrics, HISTOGRAM_DECODE, decode, 1);
    observe(metrics, HISTOGRAM_INFERENCE, request->last_token_seconds - request->queue_seconds, 1);
    if (request->tokens > 1) {
        observe(metrics, HISTOGRAM_TIME_PER_TOKEN, decode / (double)(request->tokens - 1), 1);
    }
}

void metrics_record_request(struct metrics *metrics, const struct metrics_request *request) {
    if (metrics == NULL) {
        return;
    }
    pthread_mutex_lock(&metrics->mutex);
    metrics->finished[request->finish]++;
    metrics->corrupted += request->is_corrupted;
    metrics->prompt_tokens += request->prompt_tokens;
    metrics->cached_prompt_tokens += request->cached_prompt_tokens;
    observe(metrics, HISTOGRAM_TOTAL, request->total_seconds, 1);
    observe(metrics, HISTOGRAM_PROMPT_TOKENS, (double)request->prompt_tokens, 1);
    observe(metrics, HISTOGRAM_TOKENS, (double)request->tokens, 1);
    if (request->tokens > 0) {
        observe_phases(metrics, request);
    }
    if (request->token_limit >= 0) {
        observe(metrics, HISTOGRAM_TOKEN_LIMIT, (double)request->token_limit, 1);
    }
    if (request->choice_count > 0) {
        observe(metrics, HISTOGRAM_CHOICES, (double)request->choice_count, 1);
        observe(metrics, HISTOGRAM_LONGEST_TOKENS, (double)request->longest_tokens, 1);
    }
    pthread_mutex_unlock(&metrics->mutex);
}

void metrics_record_rejection(struct metrics *metrics) {
    if (metrics != NULL) {
        pthread_mutex_lock(&metrics->mutex);
        metrics->rejected++;
        pthread_mutex_unlock(&metrics->mutex);
    }
}

void metrics_record_reply(struct metrics *metrics, int status) {
    if (metrics != NULL && status >= 100 && status < 100 * (REPLY_CLASS_COUNT + 1)) {
        pthread_mutex_lock(&metrics->mutex);
        metrics->replies[status / 100 - 1]++;
        pthread_mutex_unlock(&metrics->mutex);
    }
}
