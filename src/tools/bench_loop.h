/*
 * Requests in a closed loop through the public API: as one ends, the next one starts.
 *
 * The engine is opened for as many requests at once as the loop keeps running, and as many again wait in its
 * queue. So a request starts with the step after an end, whenever this thread wakes, and this thread wakes
 * when requests start and not with every step: measuring takes nothing from what is measured.
 */
#ifndef SLUICE_TOOLS_BENCH_LOOP_H
#define SLUICE_TOOLS_BENCH_LOOP_H

#include "base/status.h"
#include "sluice/engine.h"
#include "sluice/request.h"
#include "tools/bench_prompts.h"

struct bench_loop_options {
    struct sluice_engine *engine; /* with nothing else to do */
    const struct bench_prompts *prompts;
    size_t first_prompt;
    int concurrency;   /* the engine's sequence limit */
    int request_count; /* the measurement ends when so many have ended */
    int64_t gen_tokens;
    double temperature;
    uint64_t seed;
};

struct bench_loop_result {
    double seconds;                   /* in which `concurrency` requests ran */
    struct sluice_engine_stats stats; /* counters: what came to them in that time */
    int finished_requests;
    double first_token_seconds; /* sum over the finished ones, each from its first step */
    double token_seconds;       /* sum of their means per token after the first */
};

/* Runs the loop; requests that are under way at its end are cancelled. */
enum status bench_loop_run(const struct bench_loop_options *options, struct bench_loop_result *out);

/* Adds counters; what is no counter is taken over from `more`. */
void bench_stats_add(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more);

/* The error of a finished request that did not reach its token limit. */
enum status bench_loop_check_end(const struct sluice_request_state *state);

#endif
