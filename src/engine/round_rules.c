#include "engine/round_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status slot_rules_init(struct slot_rules *rules, int64_t vocabulary_size) {
    *rules = (struct slot_rules){0};
    return token_counts_init(&rules->count_memory, (size_t)vocabulary_size);
}

size_t slot_rules_bytes(int64_t vocabulary_size) {
    return (size_t)vocabulary_size * sizeof(uint32_t) + (size_t)vocabulary_size / 8 + 1;
}

static enum status copy_bias(struct slot_rules *rules, const struct sluice_sampling *sampling) {
    size_t count = sampling->logit_bias_count;
    if (count > rules->bias_limit) {
        struct sluice_logit_bias *bias = realloc(rules->bias, count * sizeof *bias);
        CHECK_MEMORY(bias);
        rules->bias = bias;
        rules->bias_limit = count;
    }
    if (count > 0) {
        memcpy(rules->bias, sampling->logit_bias, count * sizeof *rules->bias);
    }
    rules->sampling.logit_bias = rules->bias;
    return STATUS_OK;
}

static enum status count_tokens(struct slot_rules *rules, const struct round_start *start) {
    token_counts_clear(&rules->count_memory);
    rules->counts = &rules->count_memory;
    TRY(token_counts_add_prompt(rules->counts, start->tokens, (size_t)start->prompt_count));
    for (int32_t i = start->prompt_count; i < start->token_count; i++) {
        TRY(token_counts_add_output(rules->counts, start->tokens[i]));
    }
    return STATUS_OK;
}

static enum status fill(struct slot_rules *rules, const struct round_start *start) {
    TRY(copy_bias(rules, &start->rules->sampling));
    return sampler_has_penalties(&rules->sampling) ? count_tokens(rules, start) : STATUS_OK;
}

void slot_rules_start(struct slot_rules *rules, const struct round_start *start) {
    rules->generation = start->generation;
    rules->sampling = start->rules->sampling;
    rules->choice_index = start->rules->choice_index;
    rules->log_probability_count = start->rules->log_probability_count;
    rules->prompt_log_probability_count = start->rules->prompt_log_probability_count;
    rules->counts = NULL;
    rules->status = fill(rules, start);
    if (rules->status != STATUS_OK) {
        snprintf(rules->message, sizeof rules->message, "%.255s", error_last()->message);
    }
}

void slot_rules_deinit(struct slot_rules *rules) {
    free(rules->bias);
    token_counts_deinit(&rules->count_memory);
    *rules = (struct slot_rules){0};
}
