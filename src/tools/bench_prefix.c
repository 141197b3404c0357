/* The cache is emptied before each pair, so the first request of it finds nothing. */
#include "tools/bench_prefix.h"

#include <stdlib.h>

#include "tools/bench_loop.h"

struct prefix_session {
    struct sluice_engine *engine;
    int32_t *tokens; /* [prompt_tokens] */
    size_t token_count;
    double *cold; /* [repeats] seconds */
    double *hit;
    double *ratios;
};

static enum status time_first_token(const struct prefix_session *session, double *seconds,
                                    int64_t *cached_tokens) {
    struct sluice_request_options options = sluice_request_options_default();
    struct sluice_request *request;
    options.prompt = session->tokens;
    options.prompt_count = session->token_count;
    options.token_limit = 1;
    options.sampling.temperature = 0.0;
    TRY((enum status)sluice_engine_submit(session->engine, &options, &request));
    struct sluice_request_state state = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    enum status status = bench_loop_check_end(&state);
    sluice_request_release(&request);
    TRY(status);
    *seconds = state.first_token_seconds;
    *cached_tokens = (int64_t)state.cached_prompt_tokens;
    return STATUS_OK;
}

static enum status measure(struct prefix_session *session, const struct bench_prompts *prompts, int repeats,
                           struct bench_prefix_result *out) {
    for (int r = 0; r < repeats; r++) {
        int64_t cached_when_cold;
        for (size_t i = 0; i < session->token_count; i++) {
            size_t piece = i / prompts->length + (size_t)r;
            session->tokens[i] = bench_prompts_at(prompts, piece)[i % prompts->length];
        }
        TRY((enum status)sluice_engine_clear_prefix_cache(session->engine));
        TRY(time_first_token(session, &session->cold[r], &cached_when_cold));
        CHECK(cached_when_cold == 0, STATUS_INTERNAL, "an emptied prefix cache gave %lld tokens",
              (long long)cached_when_cold);
        TRY(time_first_token(session, &session->hit[r], &out->cached_tokens));
        session->ratios[r] = bench_rate(session->cold[r], session->hit[r]);
    }
    out->prompt_tokens = (int64_t)session->token_count;
    out->speedup = bench_spread_of(session->ratios, repeats).median;
    out->cold_seconds = bench_spread_of(session->cold, repeats);
    out->hit_seconds = bench_spread_of(session->hit, repeats);
    return STATUS_OK;
}

enum status bench_prefix_run(const struct sluice_engine_options *engine, const struct bench_prompts *prompts,
                             int64_t prompt_tokens, int repeats, struct bench_prefix_result *out) {
    enum status status = STATUS_OK;
    struct sluice_engine_options options = *engine;
    struct prefix_session session = {.token_count = (size_t)prompt_tokens};
    options.sequence_limit = 1;
    options.context_tokens = prompt_tokens + 1;
    options.has_prefix_cache = true;
    options.draft.limit = 0;
    session.tokens = calloc(session.token_count, sizeof *session.tokens);
    session.cold = calloc((size_t)repeats, sizeof *session.cold);
    session.hit = calloc((size_t)repeats, sizeof *session.hit);
    session.ratios = calloc((size_t)repeats, sizeof *session.ratios);
    CHECK_MEMORY_GOTO(session.tokens);
    CHECK_MEMORY_GOTO(session.cold);
    CHECK_MEMORY_GOTO(session.hit);
    CHECK_MEMORY_GOTO(session.ratios);
    TRY_GOTO((enum status)sluice_engine_open(&options, &session.engine));
    TRY_GOTO(measure(&session, prompts, repeats, out));
fail:
    sluice_engine_close(&session.engine);
    free(session.tokens);
    free(session.cold);
    free(session.hit);
    free(session.ratios);
    return status;
}
