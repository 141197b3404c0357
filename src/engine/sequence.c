/* Checking a request's options, and the life of its tokens. */
#include "engine/sequence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"

struct sluice_request_options sluice_request_options_default(void) {
    return (struct sluice_request_options){
        .sampling = sluice_sampling_default(),
        .token_limit = -1,
        .log_probability_count = -1,
        .prompt_log_probability_count = -1,
        .draft_limit = -1,
    };
}

static enum status check_prompt(const struct sluice_request_options *options,
                                const struct sequence_bounds *bounds) {
    CHECK(options->prompt != NULL && options->prompt_count >= 1, STATUS_BAD_ARGUMENT,
          "the prompt is empty: it needs one token at least");
    CHECK(options->prompt_count <= (size_t)bounds->context_tokens, STATUS_CONTEXT_FULL,
          "the prompt has %zu tokens, more than the context of %lld: raise --max-model-len",
          options->prompt_count, (long long)bounds->context_tokens);
    for (size_t i = 0; i < options->prompt_count; i++) {
        CHECK(options->prompt[i] >= 0 && options->prompt[i] < bounds->vocabulary_size, STATUS_OUT_OF_RANGE,
              "the prompt's token at index %zu has id %d, but the vocabulary has %lld ids", i,
              options->prompt[i], (long long)bounds->vocabulary_size);
    }
    CHECK(options->output_prefix_count < options->prompt_count, STATUS_OUT_OF_RANGE,
          "output_prefix_count is %zu; it must be less than the %zu tokens of the prompt",
          options->output_prefix_count, options->prompt_count);
    return STATUS_OK;
}

static enum status check_limits(const struct sluice_request_options *options,
                                const struct sequence_bounds *bounds) {
    CHECK(options->token_limit >= -1 && options->token_limit != 0, STATUS_OUT_OF_RANGE,
          "token_limit is %lld; it must be 1 or more, or -1 for what the context leaves",
          (long long)options->token_limit);
    CHECK(options->prompt_count < (size_t)bounds->context_tokens, STATUS_CONTEXT_FULL,
          "the prompt has %zu tokens, which leaves no room in a context of %lld: raise --max-model-len",
          options->prompt_count, (long long)bounds->context_tokens);
    CHECK(options->log_probability_count >= -1 &&
              options->log_probability_count <= SLUICE_LOG_PROBABILITIES_MAX,
          STATUS_OUT_OF_RANGE, "%d log-probabilities were asked for, at most %d are recorded",
          options->log_probability_count, SLUICE_LOG_PROBABILITIES_MAX);
    CHECK(options->prompt_log_probability_count >= -1 &&
              options->prompt_log_probability_count <= SLUICE_LOG_PROBABILITIES_MAX,
          STATUS_OUT_OF_RANGE,
          "%d log-probabilities of each prompt token were asked for, at most %d are recorded",
          options->prompt_log_probability_count, SLUICE_LOG_PROBABILITIES_MAX);
    CHECK(options->draft_limit >= -1 && options->draft_limit <= bounds->draft_limit, STATUS_OUT_OF_RANGE,
          "draft_limit is %d, but the engine was opened for at most %d drafts", options->draft_limit,
          bounds->draft_limit);
    CHECK(isfinite(options->timeout_seconds) && options->timeout_seconds >= 0.0, STATUS_OUT_OF_RANGE,
          "timeout_seconds is %g; it must be 0 or more", options->timeout_seconds);
    for (size_t i = 0; i < options->stop_token_count; i++) {
        CHECK(options->stop_tokens[i] >= 0 && options->stop_tokens[i] < bounds->vocabulary_size,
              STATUS_OUT_OF_RANGE, "stop token %d is outside the vocabulary of %lld ids",
              options->stop_tokens[i], (long long)bounds->vocabulary_size);
    }
    return sampler_check(&options->sampling, (size_t)bounds->vocabulary_size);
}

/* Prompt and answer share the context. */
static int32_t settle_token_limit(const struct sluice_request_options *options,
                                  const struct sequence_bounds *bounds) {
    int64_t room = bounds->context_tokens - (int64_t)options->prompt_count;
    int64_t wanted = options->token_limit == -1 ? room : options->token_limit;
    return (int32_t)((int64_t)options->prompt_count + (wanted < room ? wanted : room));
}

static enum status copy_options(struct sequence *sequence, const struct sluice_request_options *options) {
    struct sluice_sampling *sampling = &sequence->rules.sampling;
    *sampling = options->sampling;
    sampling->logit_bias = NULL;
    if (sampling->logit_bias_count > 0) {
        size_t bytes = sampling->logit_bias_count * sizeof *sampling->logit_bias;
        struct sluice_logit_bias *bias = malloc(bytes);
        CHECK_MEMORY(bias);
        memcpy(bias, options->sampling.logit_bias, bytes);
        sampling->logit_bias = bias;
    }
    if (options->stop_token_count > 0) {
        sequence->stop_tokens = malloc(options->stop_token_count * sizeof *sequence->stop_tokens);
        CHECK_MEMORY(sequence->stop_tokens);
        memcpy(sequence->stop_tokens, options->stop_tokens,
               options->stop_token_count * sizeof *sequence->stop_tokens);
        sequence->stop_token_count = options->stop_token_count;
    }
    sequence->rules.choice_index = options->choice_index;
    sequence->rules.constraint = options->constraint;
    sequence->rules.log_probability_count = options->log_probability_count;
    sequence->rules.prompt_log_probability_count = options->prompt_log_probability_count;
    return STATUS_OK;
}

static enum status alloc_log_probabilities(struct sequence *sequence) {
    struct sequence_rules *rules = &sequence->rules;
    size_t answer = (size_t)(sequence->token_limit - sequence->prompt_count);
    size_t prompt = (size_t)sequence->prompt_count; /* one more than is used: never nothing */
    sequence->scored_count = sequence->prompt_count;
    if (rules->log_probability_count >= 0) {
        rules->log_probabilities =
            calloc(answer * (size_t)(1 + rules->log_probability_count), sizeof *rules->log_probabilities);
        CHECK_MEMORY(rules->log_probabilities);
    }
    if (rules->prompt_log_probability_count >= 0) {
        rules->prompt_log_probabilities = calloc(prompt * (size_t)(1 + rules->prompt_log_probability_count),
                                                 sizeof *rules->prompt_log_probabilities);
        CHECK_MEMORY(rules->prompt_log_probabilities);
        sequence->scored_count = 1;
    }
    return STATUS_OK;
}

static enum status alloc_tokens(struct sequence *sequence, const struct sluice_request_options *options) {
    sequence->tokens = malloc((size_t)sequence->token_limit * sizeof *sequence->tokens);
    sequence->pages = malloc((size_t)sequence->page_limit * sizeof *sequence->pages);
    CHECK_MEMORY(sequence->tokens);
    CHECK_MEMORY(sequence->pages);
    memcpy(sequence->tokens, options->prompt, options->prompt_count * sizeof *sequence->tokens);
    return alloc_log_probabilities(sequence);
}

enum status sequence_init(struct sequence *sequence, const struct sluice_request_options *options,
                          const struct sequence_bounds *bounds, double now) {
    *sequence = (struct sequence){.slot = -1, .restored_from = -1, .submit_seconds = now};
    TRY(check_prompt(options, bounds));
    TRY(check_limits(options, bounds));
    sequence->prompt_count = (int32_t)options->prompt_count;
    sequence->token_count = sequence->prompt_count;
    sequence->output_prefix_count = (int32_t)options->output_prefix_count;
    sequence->token_limit = settle_token_limit(options, bounds);
    sequence->page_limit = (sequence->token_limit + bounds->page_tokens - 1) / bounds->page_tokens;
    CHECK(sequence->page_limit <= bounds->page_count, STATUS_CONTEXT_FULL,
          "prompt and answer of up to %d tokens need %d pages of %d tokens, but the engine has %d in all: "
          "raise --memory-limit or ask for fewer tokens",
          sequence->token_limit, sequence->page_limit, bounds->page_tokens, bounds->page_count);
    sequence->priority = options->priority;
    sequence->deadline = options->timeout_seconds > 0.0 ? now + options->timeout_seconds : 0.0;
    sequence->draft_limit = options->draft_limit == -1 ? bounds->draft_limit : options->draft_limit;
    sequence->uses_prefix_cache = !options->skips_prefix_cache;
    TRY(copy_options(sequence, options));
    return alloc_tokens(sequence, options);
}

void sequence_deinit(struct sequence *sequence) {
    free((void *)(uintptr_t)sequence->rules.sampling.logit_bias);
    free(sequence->rules.log_probabilities);
    free(sequence->rules.prompt_log_probabilities);
    free(sequence->stop_tokens);
    free(sequence->tokens);
    free(sequence->pages);
    *sequence = (struct sequence){.slot = -1};
}

static bool is_stop_token(const struct sequence *sequence, int32_t token) {
    for (size_t i = 0; i < sequence->stop_token_count; i++) {
        if (sequence->stop_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

bool sequence_accept(struct sequence *sequence, int32_t token, double now) {
    const struct sluice_constraint *constraint = &sequence->rules.constraint;
    sequence->tokens[sequence->token_count++] = token;
    sequence->last_token_seconds = now;
    if (sequence->first_token_seconds == 0.0) {
        sequence->first_token_seconds = now;
    }
    bool is_over = is_stop_token(sequence, token);
    if (!is_over && constraint->accept != NULL) {
        is_over = constraint->accept(constraint->context, token);
    }
    if (is_over) {
        sequence_finish(sequence, SLUICE_FINISH_STOP, STATUS_OK, NULL);
    } else if (sequence->token_count == sequence->token_limit) {
        sequence_finish(sequence, SLUICE_FINISH_LENGTH, STATUS_OK, NULL);
    }
    return sequence->finish_reason != SLUICE_FINISH_NONE;
}

void sequence_finish(struct sequence *sequence, enum sluice_finish_reason reason, enum status status,
                     const char *message) {
    sequence->finish_reason = reason;
    sequence->status = status;
    snprintf(sequence->message, sizeof sequence->message, "%s", message == NULL ? "" : message);
}

void sequence_list_insert(struct sequence_list *list, struct sequence *successor, struct sequence *sequence) {
    sequence->next = successor;
    sequence->previous = successor == NULL ? list->last : successor->previous;
    if (sequence->previous == NULL) {
        list->first = sequence;
    } else {
        sequence->previous->next = sequence;
    }
    if (successor == NULL) {
        list->last = sequence;
    } else {
        successor->previous = sequence;
    }
    list->count++;
}

void sequence_list_remove(struct sequence_list *list, struct sequence *sequence) {
    if (sequence->previous == NULL) {
        list->first = sequence->next;
    } else {
        sequence->previous->next = sequence->next;
    }
    if (sequence->next == NULL) {
        list->last = sequence->previous;
    } else {
        sequence->next->previous = sequence->previous;
    }
    sequence->previous = NULL;
    sequence->next = NULL;
    list->count--;
}
