/* A runner's memory, and the order of a round. */
#include "engine/round.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/round_internal.h"

/* Rows of a prompt in one block: enough that the head's weights are not read for a single row. */
enum { SCORE_ROWS = 16 };

int32_t round_logit_row_limit(int32_t sequence_limit, int32_t draft_limit, int32_t row_limit) {
    int64_t rows = (int64_t)sequence_limit * (1 + draft_limit);
    rows = rows < SCORE_ROWS ? SCORE_ROWS : rows;
    return (int32_t)(rows < row_limit ? rows : row_limit);
}

static int32_t logit_row_limit(const struct round_runner_options *options) {
    return round_logit_row_limit(options->sequence_limit, options->draft_limit, options->row_limit);
}

size_t round_runner_bytes(const struct round_runner_options *options, unsigned thread_count) {
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t sequences = (size_t)options->sequence_limit;
    size_t rows = (size_t)options->row_limit;
    size_t logit_rows = (size_t)logit_row_limit(options);
    size_t bytes = thread_count * sampler_workspace_bytes(vocabulary);
    bytes += logit_rows * (vocabulary * sizeof(float) + (vocabulary + 31) / 32 * sizeof(token_mask_word) +
                           sizeof(token_mask_word *) + sizeof(int32_t) + sizeof(struct round_score));
    bytes += sequences * (2 * sizeof(struct round_feedback) + 2 * sizeof(int32_t));
    if (options->draft_limit > 0) {
        bytes += sequences * (vocabulary * sizeof(float) + sizeof(struct step_segment) + sizeof(int32_t));
        bytes += rows * 2 * sizeof(int32_t);
        if (options->draft_sampling == DRAFT_SAMPLING_REJECTION) {
            bytes += sequences * (size_t)options->draft_limit * vocabulary * sizeof(float);
        }
    }
    return bytes;
}

static enum status alloc_drafting(struct round_runner *runner) {
    const struct round_runner_options *options = &runner->options;
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t sequences = (size_t)options->sequence_limit;
    runner->draft_logits = calloc(sequences * vocabulary, sizeof *runner->draft_logits);
    runner->draft_segments = calloc(sequences, sizeof *runner->draft_segments);
    runner->draft_tokens = calloc((size_t)options->row_limit, sizeof *runner->draft_tokens);
    runner->draft_rows = calloc((size_t)options->row_limit, sizeof *runner->draft_rows);
    runner->drafting = calloc(sequences, sizeof *runner->drafting);
    CHECK_MEMORY(runner->draft_logits);
    CHECK_MEMORY(runner->draft_segments);
    CHECK_MEMORY(runner->draft_tokens);
    CHECK_MEMORY(runner->draft_rows);
    CHECK_MEMORY(runner->drafting);
    if (options->draft_sampling == DRAFT_SAMPLING_REJECTION) {
        runner->draft_probabilities = calloc(sequences * (size_t)options->draft_limit * vocabulary,
                                             sizeof *runner->draft_probabilities);
        CHECK_MEMORY(runner->draft_probabilities);
    }
    return STATUS_OK;
}

static enum status alloc_choice(struct round_runner *runner) {
    size_t vocabulary = (size_t)runner->options.vocabulary_size;
    size_t sequences = (size_t)runner->options.sequence_limit;
    size_t rows = (size_t)logit_row_limit(&runner->options);
    runner->workspaces = calloc(runner->thread_count, sizeof(struct sampler_workspace *));
    runner->logits = calloc(rows * vocabulary, sizeof *runner->logits);
    runner->feedback = calloc(sequences, sizeof *runner->feedback);
    runner->first_logit_rows = calloc(sequences, sizeof *runner->first_logit_rows);
    runner->first_rows = calloc(sequences, sizeof *runner->first_rows);
    runner->masks = calloc(rows * (size_t)round_mask_words(runner), sizeof *runner->masks);
    runner->row_masks = calloc(rows, sizeof(token_mask_word *));
    CHECK_MEMORY(runner->workspaces);
    CHECK_MEMORY(runner->logits);
    CHECK_MEMORY(runner->feedback);
    CHECK_MEMORY(runner->first_logit_rows);
    CHECK_MEMORY(runner->first_rows);
    CHECK_MEMORY(runner->masks);
    CHECK_MEMORY(runner->row_masks);
    runner->prompt_errors = calloc(sequences, sizeof *runner->prompt_errors);
    runner->score_rows = calloc(rows, sizeof *runner->score_rows);
    runner->scores = calloc(rows, sizeof *runner->scores);
    CHECK_MEMORY(runner->prompt_errors);
    CHECK_MEMORY(runner->score_rows);
    CHECK_MEMORY(runner->scores);
    for (unsigned i = 0; i < runner->thread_count; i++) {
        TRY(sampler_workspace_create(vocabulary, &runner->workspaces[i]));
    }
    return STATUS_OK;
}

enum status round_runner_create(const struct round_runner_options *options, struct round_runner **out) {
    enum status status = STATUS_OK;
    struct round_runner *runner = calloc(1, sizeof *runner);
    CHECK_MEMORY(runner);
    runner->options = *options;
    runner->thread_count = worker_pool_thread_count(options->pool);
    TRY_GOTO(alloc_choice(runner));
    if (options->draft_limit > 0) {
        TRY_GOTO(alloc_drafting(runner));
    }
    *out = runner;
    return STATUS_OK;
fail:
    round_runner_destroy(&runner);
    return status;
}

void round_runner_destroy(struct round_runner **runner_pointer) {
    struct round_runner *runner = *runner_pointer;
    if (runner == NULL) {
        return;
    }
    for (unsigned i = 0; i < runner->thread_count && runner->workspaces != NULL; i++) {
        sampler_workspace_destroy(&runner->workspaces[i]);
    }
    free(runner->workspaces);
    free(runner->logits);
    free(runner->feedback);
    free(runner->first_logit_rows);
    free(runner->first_rows);
    free(runner->masks);
    free(runner->row_masks);
    free(runner->prompt_errors);
    free(runner->score_rows);
    free(runner->scores);
    free(runner->draft_logits);
    free(runner->draft_probabilities);
    free(runner->draft_segments);
    free(runner->draft_tokens);
    free(runner->draft_rows);
    free(runner->drafting);
    free(runner);
    *runner_pointer = NULL;
}

/* Runs the segment once more on its own to say which layer went wrong. */
static enum status explain(struct round_runner *runner, const struct round_plan *plan,
                           struct round_feedback *feedback) {
    struct step_plan alone = {.segments = &plan->step.segments[feedback->segment], .segment_count = 1};
    enum status status = executor_explain_not_finite(runner->options.executor, &alone);
    if (status != STATUS_NOT_FINITE) {
        return status;
    }
    snprintf(feedback->message, sizeof feedback->message, "%.511s", error_last()->message);
    return STATUS_OK;
}

enum status round_run(struct round_runner *runner, const struct round_plan *plan, struct round_result *out) {
    double started = clock_seconds();
    *out = (struct round_result){.feedback = runner->feedback, .prompt_errors = runner->prompt_errors};
    TRY(executor_run(runner->options.executor, &plan->step, runner->logits));
    TRY(round_choose(runner, plan, &out->feedback_count));
    double chosen = clock_seconds();
    out->step_seconds = chosen - started;
    TRY(round_score(runner, plan, &out->prompt_error_count));
    double scored = clock_seconds();
    if (plan->regime != DRAFT_REGIME_COLD) {
        TRY(round_draft(runner, plan, out->feedback_count));
        out->draft_seconds = clock_seconds() - scored;
    }
    /* Last, for it leaves another boundary behind than the draft layer needs. */
    for (int32_t i = 0; i < out->feedback_count; i++) {
        if (runner->feedback[i].status == STATUS_NOT_FINITE) {
            TRY(explain(runner, plan, &runner->feedback[i]));
        }
    }
    for (int32_t i = 0; i < out->prompt_error_count; i++) {
        TRY(explain(runner, plan, &runner->prompt_errors[i]));
    }
    return STATUS_OK;
}
