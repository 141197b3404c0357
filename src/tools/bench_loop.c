/* All requests are submitted first: the engine's queue keeps it busy without this thread. */
#include "tools/bench_loop.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/spread.h"
#include "engine/engine_stats_sum.h"

struct loop {
    const struct bench_loop_options *options;
    struct sluice_request **requests; /* in order of submission; NULL: ended, or not submitted */
    struct bench_loop_result *result;
};

enum status bench_loop_check_end(const struct sluice_request_state *state) {
    bool is_error = state->finish_reason == SLUICE_FINISH_ERROR;
    CHECK(state->finish_reason == SLUICE_FINISH_LENGTH,
          is_error ? (enum status)state->status : STATUS_INTERNAL,
          "a request of the benchmark ended early: %s", state->message);
    return STATUS_OK;
}

int64_t bench_loop_answer_tokens(int64_t gen_tokens, int index) {
    int64_t half = gen_tokens / 2;
    return gen_tokens - half + spread_number((uint32_t)index, (uint64_t)(2 * half + 1));
}

int64_t bench_loop_longest_answer(int64_t gen_tokens) {
    return gen_tokens + gen_tokens / 2;
}

static enum status submit(struct loop *loop, int index) {
    const struct bench_loop_options *options = loop->options;
    struct sluice_request_options request = sluice_request_options_default();
    request.prompt = bench_prompts_at(options->prompts, options->first_prompt + (size_t)index);
    request.prompt_count = options->prompts->length;
    request.token_limit = bench_loop_answer_tokens(options->gen_tokens, index);
    request.sampling.temperature = options->temperature;
    request.sampling.seed = options->seed + (uint64_t)index;
    request.skips_prefix_cache = true;
    return (enum status)sluice_engine_submit(options->engine, &request, &loop->requests[index]);
}

static void count_end(struct bench_loop_result *result, const struct sluice_request_state *state) {
    result->finished_requests++;
    result->first_token_seconds += state->first_token_seconds - state->queue_seconds;
    if (state->token_count > 1) {
        result->token_seconds +=
            (state->last_token_seconds - state->first_token_seconds) / (double)(state->token_count - 1);
    }
}

static enum status run(struct loop *loop) {
    for (int i = 0; i < loop->options->request_count; i++) {
        TRY(submit(loop, i));
    }
    for (int i = 0; i < loop->options->request_count; i++) {
        (void)sluice_request_wait(loop->requests[i], SIZE_MAX, SIZE_MAX, -1.0);
        struct sluice_request_state state = sluice_request_state(loop->requests[i]);
        TRY(bench_loop_check_end(&state));
        count_end(loop->result, &state);
        sluice_request_release(&loop->requests[i]);
    }
    return STATUS_OK;
}

/* After a failure; the engine has nothing to do afterwards. */
static void cancel_rest(struct loop *loop) {
    for (int i = 0; i < loop->options->request_count; i++) {
        if (loop->requests[i] != NULL) {
            sluice_request_cancel(loop->requests[i]);
        }
    }
    for (int i = 0; i < loop->options->request_count; i++) {
        if (loop->requests[i] != NULL) {
            (void)sluice_request_wait(loop->requests[i], SIZE_MAX, SIZE_MAX, -1.0);
            sluice_request_release(&loop->requests[i]);
        }
    }
}

void bench_stats_add(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more) {
    struct sluice_engine_stats counters = *more;
    engine_stats_add_counters(&counters, sum, 1);
    *sum = counters;
}

enum status bench_loop_run(const struct bench_loop_options *options, struct bench_loop_result *out) {
    struct loop loop = {.options = options, .result = out};
    *out = (struct bench_loop_result){0};
    loop.requests = calloc((size_t)options->request_count, sizeof(struct sluice_request *));
    CHECK_MEMORY(loop.requests);
    struct sluice_engine_stats before = sluice_engine_stats(options->engine);
    double started = clock_seconds();
    enum status status = run(&loop);
    out->seconds = clock_seconds() - started;
    out->stats = sluice_engine_stats(options->engine);
    engine_stats_add_counters(&out->stats, &before, -1);
    cancel_rest(&loop);
    free(loop.requests);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
