/* The choice of tokens: all sequences on all threads. */
#include <stdio.h>

#include "engine/round_internal.h"

/* Rows of the step and of the logits where each segment begins; one record per sampled segment. */
static int32_t index_segments(struct round_runner *runner, const struct round_plan *plan) {
    int32_t count = 0;
    int32_t row = 0;
    int32_t logit_row = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        runner->first_rows[i] = row;
        row += plan->step.segments[i].row_count;
        if (plan->segments[i].is_sampled) {
            runner->first_logit_rows[count] = logit_row;
            runner->feedback[count] = (struct round_feedback){.segment = i};
            logit_row += 1 + plan->segments[i].draft_count;
            count++;
        }
    }
    return count;
}

/* The drafts that a segment verifies. */
static const int32_t *drafts_of(const struct round_plan *plan, int32_t segment) {
    const struct step_segment *step = &plan->step.segments[segment];
    return step->token_ids + step->row_count - plan->segments[segment].draft_count;
}

/* What the tasks of a choice share. */
struct choice {
    struct round_runner *runner;
    const struct round_plan *plan;
};

static const struct slot_rules *rules_of(const struct choice *choice, const struct round_feedback *feedback) {
    return &choice->runner->rules[choice->plan->step.segments[feedback->segment].slot];
}

enum status round_record_log_probabilities(const struct round_runner *runner, const float *logits,
                                           int32_t token, int32_t top_count,
                                           struct sluice_log_probability *record) {
    struct token_log_probability of_token;
    struct token_log_probability top[SAMPLER_TOP_MAX];
    TRY(sampler_log_probabilities(logits, (size_t)runner->options.vocabulary_size, token, (size_t)top_count,
                                  &of_token, top));
    record[0] = (struct sluice_log_probability){of_token.token, of_token.log_probability};
    for (int32_t i = 0; i < top_count; i++) {
        record[1 + i] = (struct sluice_log_probability){top[i].token, top[i].log_probability};
    }
    return STATUS_OK;
}

static enum status record_log_probabilities(const struct choice *choice, int32_t index, const float *logits) {
    const struct round_runner_options *options = &choice->runner->options;
    struct round_feedback *feedback = &choice->runner->feedback[index];
    int32_t width = 1 + rules_of(choice, feedback)->log_probability_count;
    int32_t room = choice->plan->segments[feedback->segment].token_room;
    struct sluice_log_probability *records = choice->runner->records + (int64_t)index *
                                                                           (1 + options->draft_limit) *
                                                                           (1 + SLUICE_LOG_PROBABILITIES_MAX);
    feedback->record_width = width;
    feedback->log_probabilities = records;
    for (int32_t j = 0; j < feedback->token_count && width > 0 && j < room; j++) {
        TRY(round_record_log_probabilities(choice->runner, logits + j * options->vocabulary_size,
                                           feedback->tokens[j], width - 1, records + (int64_t)j * width));
        feedback->recorded_tokens++;
    }
    return STATUS_OK;
}

static enum status choose(const struct choice *choice, int32_t index, struct sampler_workspace *workspace) {
    struct round_runner *runner = choice->runner;
    struct round_feedback *feedback = &runner->feedback[index];
    const struct step_segment *step = &choice->plan->step.segments[feedback->segment];
    const struct round_segment *segment = &choice->plan->segments[feedback->segment];
    const struct slot_rules *rules = &runner->rules[step->slot];
    int32_t first_row = runner->first_logit_rows[index];
    struct draft_distribution distributions[DRAFT_LIMIT_MAX];
    CHECK(rules->generation == segment->generation, STATUS_INTERNAL,
          "slot %d has generation %u where %u was planned", step->slot, rules->generation,
          segment->generation);
    CHECK(rules->status == STATUS_OK, rules->status, "%s", rules->message);
    for (int32_t j = 0; j < segment->draft_count; j++) {
        distributions[j].probabilities = round_draft_probabilities(runner, step->slot, j);
    }
    struct verify_rows rows = {
        .logits = runner->logits + first_row * runner->options.vocabulary_size,
        .drafts = drafts_of(choice->plan, feedback->segment),
        .draft_count = segment->draft_count,
        .distributions = runner->draft_probabilities == NULL ? NULL : distributions,
        .masks = choice->plan->row_masks == NULL ? NULL : choice->plan->row_masks + first_row,
        .mode = runner->options.draft_sampling,
        .choice_index = rules->choice_index,
        .first_position = (uint32_t)(step->first_position + step->row_count - segment->draft_count),
    };
    TRY(acceptance_verify(workspace, &rules->sampling, rules->counts, &rows, feedback->tokens,
                          &feedback->token_count));
    feedback->accepted_drafts = feedback->token_count - 1;
    return record_log_probabilities(choice, index, rows.logits);
}

/* Errors belong to the sequence, and their sentences to this thread: they are copied. */
static void run_choice(void *context, size_t index, unsigned worker) {
    const struct choice *choice = context;
    struct round_feedback *feedback = &choice->runner->feedback[index];
    feedback->status = choose(choice, (int32_t)index, choice->runner->workspaces[worker]);
    if (feedback->status != STATUS_OK) {
        feedback->token_count = 0;
        feedback->accepted_drafts = 0;
        feedback->recorded_tokens = 0;
        snprintf(feedback->message, sizeof feedback->message, "%.511s", error_last()->message);
    }
}

void round_choose(struct round_runner *runner, const struct round_plan *plan, int32_t *feedback_count) {
    int32_t count = index_segments(runner, plan);
    struct choice choice = {runner, plan};
    worker_pool_run(runner->options.pool, (size_t)count, run_choice, &choice);
    *feedback_count = count;
}
