/*
 * Probabilities of prompt tokens: the head runs over rows of the step once more, in blocks of as many as
 * there is room for, and all threads take the rows of a block.
 */
#include <stdio.h>

#include "engine/round_internal.h"

static void record_score(void *context, size_t index, unsigned worker) {
    struct round_runner *runner = context;
    struct round_score *score = &runner->scores[index];
    (void)worker;
    score->status = round_record_log_probabilities(
        runner, runner->logits + (int64_t)index * runner->options.vocabulary_size, score->token,
        score->top_count, score->record);
}

/* The first row of a segment that has no logits to speak of ends its record. */
static void note_errors(struct round_runner *runner, int32_t count, struct round_feedback *feedback) {
    for (int32_t i = 0; i < count; i++) {
        const struct round_score *score = &runner->scores[i];
        struct round_feedback *of = &feedback[score->segment];
        if (score->status != STATUS_OK && of->status == STATUS_OK) {
            of->status = score->status;
            snprintf(of->message, sizeof of->message,
                     "a logit of prompt token %d is not finite: it has no log-probability", score->token);
        }
    }
}

static enum status run_block(struct round_runner *runner, int32_t count) {
    TRY(executor_run_head(runner->options.executor, runner->score_rows, count, runner->logits));
    worker_pool_run(runner->options.pool, (size_t)count, record_score, runner);
    note_errors(runner, count, runner->prompt_feedback);
    return STATUS_OK;
}

/* The token after a row of a prompt's part. */
static int32_t token_after(const struct round_plan *plan, int32_t segment, int32_t row) {
    const struct step_segment *step = &plan->step.segments[segment];
    return row + 1 < step->row_count ? step->token_ids[row + 1] : plan->segments[segment].following_token;
}

/* A record for a segment that is to have one. */
static void start_record(struct round_runner *runner, const struct round_plan *plan, int32_t segment,
                         const struct sluice_log_probability *records) {
    const struct round_segment *of = &plan->segments[segment];
    int32_t width = 1 + runner->rules[plan->step.segments[segment].slot].prompt_log_probability_count;
    int32_t rows = of->end_scored_row - of->first_scored_row;
    runner->prompt_feedback[runner->prompt_feedback_count++] = (struct round_feedback){
        .segment = segment, .recorded_tokens = rows, .record_width = width, .log_probabilities = records};
}

bool round_has_scores(const struct round_plan *plan) {
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        if (plan->segments[i].end_scored_row > plan->segments[i].first_scored_row) {
            return true;
        }
    }
    return false;
}

enum status round_score(struct round_runner *runner, const struct round_plan *plan) {
    const struct round_runner_options *options = &runner->options;
    int32_t limit = round_logit_row_limit(options->sequence_limit, options->draft_limit, options->row_limit);
    int32_t filled = 0;
    struct sluice_log_probability *record = runner->prompt_records;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct round_segment *segment = &plan->segments[i];
        if (segment->end_scored_row > segment->first_scored_row) {
            start_record(runner, plan, i, record);
        }
        for (int32_t row = segment->first_scored_row; row < segment->end_scored_row; row++) {
            int32_t top_count = runner->rules[plan->step.segments[i].slot].prompt_log_probability_count;
            runner->score_rows[filled] = runner->first_rows[i] + row;
            runner->scores[filled++] = (struct round_score){.segment = runner->prompt_feedback_count - 1,
                                                            .token = token_after(plan, i, row),
                                                            .top_count = top_count,
                                                            .record = record};
            record += 1 + top_count;
            if (filled == limit) {
                TRY(run_block(runner, filled));
                filled = 0;
            }
        }
    }
    return filled == 0 ? STATUS_OK : run_block(runner, filled);
}
