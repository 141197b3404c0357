/* Time to the first token of a prompt that is new, and of one whose beginning is in the prefix cache. */
#ifndef SLUICE_TOOLS_BENCH_PREFIX_H
#define SLUICE_TOOLS_BENCH_PREFIX_H

#include "base/status.h"
#include "sluice/engine.h"
#include "tools/bench_numbers.h"
#include "tools/bench_prompts.h"

struct bench_prefix_result {
    int64_t prompt_tokens; /* 0: nothing was measured */
    int64_t cached_tokens; /* of them from the cache */
    struct bench_spread cold_seconds;
    struct bench_spread hit_seconds;
    double speedup; /* cold over hit, the median over pairs */
};

/*
 * Opens an engine as `engine` says, for one request and without drafts, and sends a prompt of `prompt_tokens`
 * tokens twice, `repeats` times. The prompts are put together from `prompts`.
 */
enum status bench_prefix_run(const struct sluice_engine_options *engine, const struct bench_prompts *prompts,
                             int64_t prompt_tokens, int repeats, struct bench_prefix_result *out);

#endif
