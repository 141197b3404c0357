/*
 * Executes round plans: the step, the choice of tokens, the draft layer (spec parallelism 4.2).
 *
 * It holds what the last stage of a pipeline holds: head, sampling, draft layer. Rows are chosen from by all
 * threads of the pool; constraints are asked on the caller's thread. All memory is made at creation. One
 * thread at a time.
 */
#ifndef SLUICE_ENGINE_ROUND_H
#define SLUICE_ENGINE_ROUND_H

#include "base/worker_pool.h"
#include "engine/acceptance.h"
#include "engine/executor.h"
#include "engine/round_plan.h"

struct round_runner;

struct round_runner_options {
    struct executor *executor; /* borrowed */
    struct worker_pool *pool;  /* borrowed */
    int64_t vocabulary_size;
    int32_t sequence_limit; /* segments of a step; slots of sequences are below it */
    int32_t row_limit;      /* rows of a step */
    int32_t draft_limit;
    enum draft_sampling draft_sampling;
};

/*
 * Rows of logits that are looked at together at most: of a step one per sequence and its drafts, of prompts
 * whose tokens' probabilities are wanted as many, but some at least.
 */
int32_t round_logit_row_limit(int32_t sequence_limit, int32_t draft_limit, int32_t row_limit);

/* Bytes that a runner of this size allocates for `thread_count` threads. */
size_t round_runner_bytes(const struct round_runner_options *options, unsigned thread_count);

enum status round_runner_create(const struct round_runner_options *options, struct round_runner **out);

/* Frees and nulls; NULL inside is allowed. */
void round_runner_destroy(struct round_runner **runner);

/*
 * Runs the plan. A sequence whose logits are not finite has that in its feedback and does not disturb the
 * others; any other error is the round's. `out` is valid until the next run.
 */
enum status round_run(struct round_runner *runner, const struct round_plan *plan, struct round_result *out);

#endif
