/* The model's own texts begin with token 0: in DeepSeek's vocabularies that begins every text. */
#include "tools/bench_prompts.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/request.h"
#include "tools/bench_loop.h"

enum { WRITTEN_PROMPTS = 64, WRITTEN_AT_ONCE = 16 };

static const int32_t first_token = 0;

enum status bench_prompts_cut(const int32_t *tokens, size_t token_count, size_t length,
                              struct bench_prompts *out) {
    CHECK(length >= 1 && token_count >= length, STATUS_BAD_ARGUMENT,
          "the text for prompts has %zu tokens, too few for one prompt of %zu: give a longer text or shorter "
          "prompts",
          token_count, length);
    *out = (struct bench_prompts){.count = token_count / length, .length = length};
    out->tokens = malloc(out->count * length * sizeof *out->tokens);
    CHECK_MEMORY(out->tokens);
    memcpy(out->tokens, tokens, out->count * length * sizeof *out->tokens);
    return STATUS_OK;
}

static enum status submit(struct sluice_engine *engine, size_t length, uint64_t seed,
                          struct sluice_request **out) {
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = &first_token;
    options.prompt_count = 1;
    options.token_limit = (int64_t)length - 1;
    options.sampling.seed = seed;
    return (enum status)sluice_engine_submit(engine, &options, out);
}

/* Waits for the end and takes the text. */
static enum status take(struct sluice_request *request, size_t length, int32_t *tokens) {
    struct sluice_request_state state = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    TRY(bench_loop_check_end(&state));
    tokens[0] = first_token;
    for (size_t i = 1; i < length; i++) {
        tokens[i] = sluice_request_token(request, i - 1);
    }
    return STATUS_OK;
}

static enum status write_all(struct sluice_engine *engine, uint64_t seed, struct bench_prompts *out) {
    enum status status = STATUS_OK;
    struct sluice_request *requests[WRITTEN_PROMPTS] = {0};
    for (size_t i = 0; i < out->count; i++) {
        TRY_GOTO(submit(engine, out->length, seed + i, &requests[i]));
    }
    for (size_t i = 0; i < out->count; i++) {
        TRY_GOTO(take(requests[i], out->length, out->tokens + i * out->length));
    }
fail:
    for (size_t i = 0; i < out->count; i++) {
        sluice_request_release(&requests[i]);
    }
    return status;
}

enum status bench_prompts_write(const struct sluice_engine_options *engine, size_t length, uint64_t seed,
                                struct bench_prompts *out) {
    struct sluice_engine_options options = *engine;
    struct sluice_engine *writer;
    *out = (struct bench_prompts){.count = WRITTEN_PROMPTS, .length = length};
    out->tokens = calloc(out->count * length, sizeof *out->tokens);
    CHECK_MEMORY(out->tokens);
    if (length == 1) {
        return STATUS_OK; /* only the first token, which is 0 */
    }
    options.context_tokens = (int64_t)length;
    options.sequence_limit = WRITTEN_AT_ONCE;
    options.has_prefix_cache = false;
    options.draft.limit = 0;
    TRY((enum status)sluice_engine_open(&options, &writer));
    enum status status = write_all(writer, seed, out);
    sluice_engine_close(&writer);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

void bench_prompts_deinit(struct bench_prompts *prompts) {
    free(prompts->tokens);
    *prompts = (struct bench_prompts){0};
}
