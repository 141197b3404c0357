/*
 * Probabilities of prompt tokens: the head runs over rows of the step once more, in blocks of as many as
 * there is room for, and all threads take the rows of a block.
 */
#include <stdio.h>

#include "engine/round_internal.h"

static int32_t block_limit(const struct round_runner *runner) {
    const struct round_runner_options *options = &runner->options;
    return round_logit_row_limit(options->sequence_limit, options->draft_limit, options->row_limit);
}

static void record_score(void *context, size_t index, unsigned worker) {
    struct round_runner *runner = context;
    struct round_score *score = &runner->scores[index];
    (void)worker;
    score->status = round_record_log_probabilities(
        runner, runner->logits + (int64_t)index * runner->options.vocabulary_size, score->token,
        score->top_count, score->record);
}

static bool has_error(const struct round_runner *runner, int32_t segment, int32_t error_count) {
    return error_count > 0 && runner->prompt_errors[error_count - 1].segment == segment;
}

/* Rows come segment by segment, so a segment's errors come together. */
static void note_errors(struct round_runner *runner, int32_t count, int32_t *error_count) {
    for (int32_t i = 0; i < count; i++) {
        const struct round_score *score = &runner->scores[i];
        if (score->status != STATUS_OK && !has_error(runner, score->segment, *error_count)) {
            struct round_feedback *error = &runner->prompt_errors[(*error_count)++];
            *error = (struct round_feedback){.segment = score->segment, .status = score->status};
            snprintf(error->message, sizeof error->message,
                     "a logit of prompt token %d is not finite: it has no log-probability", score->token);
        }
    }
}

static enum status run_block(struct round_runner *runner, int32_t count, int32_t *error_count) {
    TRY(executor_run_head(runner->options.executor, runner->score_rows, count, runner->logits));
    worker_pool_run(runner->options.pool, (size_t)count, record_score, runner);
    note_errors(runner, count, error_count);
    return STATUS_OK;
}

static struct round_score score_of(const struct round_plan *plan, int32_t segment, int32_t index) {
    const struct round_segment *of = &plan->segments[segment];
    int32_t top_count = of->rules->prompt_log_probability_count;
    return (struct round_score){.segment = segment,
                                .token = of->scored_tokens[index],
                                .top_count = top_count,
                                .record = of->rules->prompt_log_probabilities +
                                          (int64_t)(of->score_index + index) * (1 + top_count)};
}

enum status round_score(struct round_runner *runner, const struct round_plan *plan,
                        int32_t *prompt_error_count) {
    int32_t limit = block_limit(runner);
    int32_t filled = 0;
    *prompt_error_count = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct round_segment *segment = &plan->segments[i];
        for (int32_t row = segment->first_scored_row; row < segment->end_scored_row; row++) {
            runner->score_rows[filled] = runner->first_rows[i] + row;
            runner->scores[filled++] = score_of(plan, i, row - segment->first_scored_row);
            if (filled == limit) {
                TRY(run_block(runner, filled, prompt_error_count));
                filled = 0;
            }
        }
    }
    return filled == 0 ? STATUS_OK : run_block(runner, filled, prompt_error_count);
}
