/* `sluice generate`: prompt in, text out. */
#include <stdint.h>

#include "base/log.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/generate_output.h"
#include "cli/generate_request.h"
#include "sluice/request.h"
#include "tools/prompt_logits.h"

/* One run: the engine, its only request, and what comes out. */
struct generation {
    const struct cli_options *options;
    struct cli_engine_options engine_options;
    struct generate_request request;
    struct generate_output output;
    struct sluice_engine *engine;
    struct sluice_request *answer;
    struct generate_timings timings;
    size_t shown; /* tokens of the answer that have been shown */
    bool is_over; /* by what the tokens say, not by how many there are */
};

static void report_progress(void *context, size_t done) {
    progress_update(context, done);
}

static enum status write_prompt_logits(struct generation *generation) {
    const struct token_list *prompt = &generation->request.prompt;
    struct progress line;
    struct token_progress progress = {.report = report_progress, .context = &line};
    progress_start(&line, "reading the prompt", "tokens", prompt->count);
    enum status status =
        prompt_logits_write(&generation->engine_options.engine, prompt->ids, prompt->count,
                            generation->options->mtp_logits, generation->options->prompt_logits, &progress);
    progress_finish(&line);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status open_engine(struct generation *generation) {
    TRY((enum status)sluice_engine_open(&generation->engine_options.engine, &generation->engine));
    struct sluice_engine_facts facts = sluice_engine_facts(generation->engine);
    const struct sluice_memory_ledger *memory = &facts.memory;
    generation->timings.load_seconds = facts.load_seconds;
    generation->timings.has_drafts = facts.draft_limit > 0;
    log_write(LOG_INFO, "generate",
              "%zu tensors, %.1f MB mapped, %.1f MB copied, %.1f MB state, %.1f MB per step, %.1f MB host",
              facts.tensor_count, (double)memory->mapped_weight_bytes / 1e6,
              (double)memory->copied_weight_bytes / 1e6,
              (double)(memory->slot_state_bytes + memory->page_state_bytes) / 1e6,
              (double)memory->step_bytes / 1e6, (double)memory->host_bytes / 1e6);
    return STATUS_OK;
}

static enum status show_log_probabilities(struct generation *generation, size_t index) {
    struct sluice_log_probability chosen;
    struct sluice_log_probability top[SLUICE_LOG_PROBABILITIES_MAX];
    TRY((enum status)sluice_request_log_probabilities(generation->answer, index, &chosen, top));
    return generate_output_push_log_probabilities(&generation->output, &chosen, top,
                                                  (size_t)generation->options->logprobs);
}

/* Whether the token ends answers and is no part of them. */
static bool is_end_token(const struct generation *generation, int32_t token) {
    const struct generation_config *recommended = &generation->request.recommended;
    for (int i = 0; i < recommended->end_token_count && !generation->options->ignore_eos; i++) {
        if (recommended->end_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

/* Shows the tokens that have come since the last look. `is_last`: the newest one ends the answer. */
static enum status show_tokens(struct generation *generation, size_t count, bool is_last) {
    while (generation->shown < count && !generation->is_over) {
        size_t index = generation->shown++;
        int32_t token = sluice_request_token(generation->answer, index);
        if (generation->options->logprobs_given) {
            TRY(show_log_probabilities(generation, index));
        }
        bool is_end = is_last && index + 1 == count;
        if (is_end && is_end_token(generation, token)) {
            generation->is_over = true;
            return generate_output_push_end(&generation->output, token);
        }
        TRY(generate_output_push(&generation->output, token));
        generation->is_over = is_end || generate_output_is_stopped(&generation->output);
    }
    return STATUS_OK;
}

static void record_timings(struct generation *generation, const struct sluice_request_state *state) {
    struct generate_timings *timings = &generation->timings;
    timings->prefill_seconds = state->first_token_seconds;
    timings->decode_seconds = state->last_token_seconds - state->first_token_seconds;
    timings->decode_steps = state->token_count == 0 ? 0 : state->token_count - 1;
    timings->verified_drafts = state->verified_drafts;
    timings->accepted_drafts = state->accepted_drafts;
}

static enum status follow_answer(struct generation *generation, struct progress *line) {
    struct sluice_request_state state = {0};
    while (state.phase != SLUICE_REQUEST_FINISHED && !generation->is_over) {
        state = sluice_request_wait(generation->answer, generation->shown,
                                    state.token_count == 0 ? state.prompt_tokens_done : SIZE_MAX, -1.0);
        if (state.token_count == 0) {
            progress_update(line, state.prompt_tokens_done);
        } else if (generation->shown == 0) {
            progress_finish(line);
        }
        CHECK(state.finish_reason != SLUICE_FINISH_ERROR, (enum status)state.status, "%s", state.message);
        TRY(show_tokens(generation, state.token_count, state.finish_reason == SLUICE_FINISH_STOP));
    }
    record_timings(generation, &state);
    return STATUS_OK;
}

static enum status answer(struct generation *generation) {
    struct sluice_request_options options = generate_request_options(&generation->request);
    struct progress line;
    struct generate_request *request = &generation->request;
    int64_t vocabulary_size = sluice_engine_facts(generation->engine).vocabulary_size;
    TRY(answer_grammar_apply(&request->grammar, request->tokenizer, vocabulary_size,
                             request->starts_in_reasoning, &options));
    TRY((enum status)sluice_engine_submit(generation->engine, &options, &generation->answer));
    progress_start(&line, "reading the prompt", "tokens", generation->request.prompt.count);
    enum status status = follow_answer(generation, &line);
    progress_finish(&line);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status run(struct generation *generation) {
    const struct cli_options *options = generation->options;
    TRY(cli_engine_options_read(options, 0, &generation->engine_options));
    TRY(generate_request_init(&generation->request, options));
    generate_request_settle_engine(&generation->request, &generation->engine_options.engine);
    TRY(generate_output_init(&generation->output, &generation->request));
    if (options->prompt_logits != NULL) {
        TRY(write_prompt_logits(generation));
    }
    if (options->max_tokens > 0) {
        TRY(open_engine(generation));
        TRY(answer(generation));
    }
    return generate_output_finish(&generation->output, generation->is_over ? FINISH_STOP : FINISH_LENGTH,
                                  &generation->timings);
}

enum status command_generate(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    struct generation generation = {.options = options};
    enum status status = run(&generation);
    generate_output_deinit(&generation.output);
    sluice_request_release(&generation.answer);
    sluice_engine_close(&generation.engine);
    generate_request_deinit(&generation.request);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
