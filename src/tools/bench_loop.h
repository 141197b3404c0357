/*
 * A number of requests through the public API, from the first submission to the last end.
 *
 * What is measured is the time of a fixed amount of work, prompts and answers, whatever the engine does in
 * which order. (If more requests followed, some prompts would be read in that time whose answers do not
 * count: all of a wave where requests end together, few where they end one by one.) Answers have between half
 * and one and a half times the wanted tokens: equal ones would start and end together in one engine and one
 * by one in another, which drafts, and the last ones would have it all to themselves there. The engine is
 * opened for as many at once as are wanted, and the others wait in its queue. This thread wakes only when
 * requests end: measuring takes nothing from what is measured.
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
    int request_count;
    int64_t gen_tokens; /* of an answer on average */
    double temperature;
    uint64_t seed;
};

struct bench_loop_result {
    double seconds;
    struct sluice_engine_stats stats; /* counters: what came to them in that time */
    int finished_requests;
    double first_token_seconds; /* sum over the requests, each from its first step */
    double token_seconds;       /* sum of their means per token after the first */
};

/* Tokens of the answer to request `index`, from gen_tokens - gen_tokens / 2 to the longest. */
int64_t bench_loop_answer_tokens(int64_t gen_tokens, int index);

/* gen_tokens + gen_tokens / 2 */
int64_t bench_loop_longest_answer(int64_t gen_tokens);

/* Runs the requests; after a failure the rest is cancelled. */
enum status bench_loop_run(const struct bench_loop_options *options, struct bench_loop_result *out);

/* Adds counters; what is no counter is taken over from `more`. */
void bench_stats_add(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more);

/* The error of a finished request that did not reach its token limit. */
enum status bench_loop_check_end(const struct sluice_request_state *state);

#endif
