/* `sluice generate`: prompt in, text out. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/generate_output.h"
#include "cli/generate_request.h"
#include "sluice/session.h"
#include "tools/prompt_logits.h"

/* One run: the engine, its only session, and what comes out. */
struct generation {
    const struct cli_options *options;
    struct generate_request request;
    struct generate_output output;
    struct sluice_engine *engine;
    struct sluice_session *session;
    struct generate_timings timings;
    int64_t new_token_limit; /* --max-tokens, or what the context leaves */
};

/* Prompt and answer share the context; an answer that reaches its end is cut there. */
static enum status settle_length(struct generation *generation) {
    int64_t context = sluice_engine_facts(generation->engine).context_tokens;
    int64_t prompt = (int64_t)generation->request.prompt.count;
    int64_t wanted = generation->options->max_tokens;
    CHECK(prompt < context || (prompt == context && wanted == 0), STATUS_CONTEXT_FULL,
          "the prompt has %lld tokens, which leaves no room in a context of %lld: raise --max-model-len",
          (long long)prompt, (long long)context);
    generation->new_token_limit = wanted < context - prompt ? wanted : context - prompt;
    return STATUS_OK;
}

static void report_progress(void *context, size_t done, size_t total) {
    (void)total;
    progress_update(context, done);
}

static enum status take_prompt(struct generation *generation) {
    const struct token_list *prompt = &generation->request.prompt;
    struct progress line;
    struct sluice_progress progress = {.report = report_progress, .context = &line};
    double started = clock_seconds();
    enum status status;
    progress_start(&line, "reading the prompt", "tokens", prompt->count);
    if (generation->options->prompt_logits != NULL) {
        int64_t vocabulary = sluice_engine_facts(generation->engine).vocabulary_size;
        status = prompt_logits_write(generation->session, prompt->ids, prompt->count, vocabulary,
                                     generation->options->mtp_logits, generation->options->prompt_logits,
                                     &progress);
    } else {
        status =
            (enum status)sluice_session_append(generation->session, prompt->ids, prompt->count, &progress);
    }
    progress_finish(&line);
    generation->timings.prefill_seconds = clock_seconds() - started;
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static bool is_end_token(const struct generation *generation, int32_t token) {
    const struct generation_config *config = &generation->request.recommended;
    for (int i = 0; i < config->end_token_count && !generation->options->ignore_eos; i++) {
        if (config->end_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

static enum status record_log_probabilities(struct generation *generation, int32_t token) {
    struct sluice_log_probability chosen;
    struct sluice_log_probability top[SLUICE_LOG_PROBABILITIES_MAX];
    size_t count = (size_t)generation->options->logprobs;
    TRY((enum status)sluice_session_log_probabilities(generation->session, token, count, &chosen, top));
    return generate_output_push_log_probabilities(&generation->output, &chosen, top, count);
}

/* Chooses the next token and shows it. */
static enum status choose(struct generation *generation, int32_t *token, bool *is_end) {
    TRY((enum status)sluice_session_choose(generation->session, &generation->request.sampling.sampling,
                                           token));
    if (generation->options->logprobs_given) {
        TRY(record_log_probabilities(generation, *token));
    }
    if (is_end_token(generation, *token)) {
        *is_end = true;
        return generate_output_push_end(&generation->output, *token);
    }
    TRY(generate_output_push(&generation->output, *token));
    *is_end = generate_output_is_stopped(&generation->output);
    return STATUS_OK;
}

static enum status answer(struct generation *generation) {
    double started = clock_seconds();
    bool is_end = false;
    for (int64_t i = 0; i < generation->new_token_limit && !is_end; i++) {
        int32_t token;
        TRY(choose(generation, &token, &is_end));
        if (!is_end && i + 1 < generation->new_token_limit) {
            TRY((enum status)sluice_session_append(generation->session, &token, 1, NULL));
            generation->timings.decode_steps++;
        }
    }
    generation->timings.decode_seconds = clock_seconds() - started;
    return generate_output_finish(&generation->output, is_end ? FINISH_STOP : FINISH_LENGTH,
                                  &generation->timings);
}

static enum status open_session(struct generation *generation) {
    struct sluice_engine_options options = generate_request_engine(&generation->request);
    TRY((enum status)sluice_engine_open(&options, &generation->engine));
    struct sluice_engine_facts facts = sluice_engine_facts(generation->engine);
    generation->timings.load_seconds = facts.load_seconds;
    log_write(LOG_INFO, "generate",
              "%zu tensors, %.1f MB mapped, %.1f MB copied, %.1f MB state, %.1f MB per step",
              facts.tensor_count, (double)facts.mapped_bytes / 1e6, (double)facts.copied_bytes / 1e6,
              (double)facts.state_bytes / 1e6, (double)facts.step_bytes / 1e6);
    return (enum status)sluice_session_create(generation->engine, &generation->session);
}

enum status command_generate(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    enum status status = STATUS_OK;
    struct generation generation = {.options = options};
    TRY_GOTO(generate_request_init(&generation.request, options));
    TRY_GOTO(open_session(&generation));
    TRY_GOTO(settle_length(&generation));
    TRY_GOTO(generate_output_init(&generation.output, &generation.request));
    TRY_GOTO(take_prompt(&generation));
    TRY_GOTO(answer(&generation));
fail:
    generate_output_deinit(&generation.output);
    sluice_session_destroy(&generation.session);
    sluice_engine_close(&generation.engine);
    generate_request_deinit(&generation.request);
    return status;
}
