/* A runner's memory. */
#include "engine/round.h"

#include <stdlib.h>

#include "engine/round_internal.h"

enum { RECORD_WIDTH_MAX = 1 + SLUICE_LOG_PROBABILITIES_MAX };

/* Rows of a prompt in one block: enough that the head's weights are not read for a single row. */
enum { SCORE_ROWS = 16 };

int32_t round_logit_row_limit(int32_t sequence_limit, int32_t draft_limit, int32_t row_limit) {
    int64_t rows = (int64_t)sequence_limit * (1 + draft_limit);
    rows = rows < SCORE_ROWS ? SCORE_ROWS : rows;
    return (int32_t)(rows < row_limit ? rows : row_limit);
}

static size_t logit_row_limit(const struct round_runner_options *options) {
    return (size_t)round_logit_row_limit(options->sequence_limit, options->draft_limit, options->row_limit);
}

static struct feedback_shape shape_of(const struct round_runner_options *options) {
    return (struct feedback_shape){.draft_limit = options->draft_limit,
                                   .sequence_limit = options->sequence_limit,
                                   .row_limit = options->row_limit,
                                   .vocabulary_size = options->vocabulary_size};
}

static size_t feedback_bytes(const struct round_runner_options *options) {
    struct feedback_shape shape = shape_of(options);
    return feedback_record_bytes(&shape, options->sequence_limit) + feedback_extra_bytes_max(&shape);
}

static size_t record_count(const struct round_runner_options *options) {
    return (size_t)options->sequence_limit * (size_t)(1 + options->draft_limit) * RECORD_WIDTH_MAX;
}

static size_t prompt_record_count(const struct round_runner_options *options) {
    return (size_t)options->row_limit * RECORD_WIDTH_MAX;
}

static size_t rank_count(const struct round_runner_options *options) {
    return options->ranks == NULL ? 1 : (size_t)comm_size(options->ranks->control);
}

static size_t leader_bytes(const struct round_runner_options *options) {
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t logit_rows = logit_row_limit(options);
    size_t bytes = logit_rows * ((vocabulary + 31) / 32 * sizeof(token_mask_word) + sizeof(void *));
    bytes += (size_t)options->in_flight_limit * sizeof(struct started_round);
    bytes += rank_count(options) * sizeof(struct rank_report);
    bytes += round_chooses(options) ? 0 : feedback_bytes(options);
    return bytes + 2 * (size_t)options->sequence_limit * sizeof(struct round_feedback);
}

static size_t drafting_bytes(const struct round_runner_options *options) {
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t sequences = (size_t)options->sequence_limit;
    size_t bytes = sequences * (vocabulary * sizeof(float) + sizeof(struct step_segment) +
                                sizeof(struct step_snapshot) + sizeof(int32_t));
    bytes += (size_t)options->row_limit * 2 * sizeof(int32_t);
    if (options->draft_sampling == DRAFT_SAMPLING_REJECTION) {
        bytes += sequences * (size_t)options->draft_limit * vocabulary * sizeof(float);
    }
    return bytes;
}

static size_t chooser_bytes(const struct round_runner_options *options, unsigned thread_count) {
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t sequences = (size_t)options->sequence_limit;
    size_t bytes = thread_count * sampler_workspace_bytes(vocabulary);
    bytes += logit_row_limit(options) *
             (vocabulary * sizeof(float) + sizeof(int32_t) + sizeof(struct round_score));
    bytes +=
        sequences * (sizeof(struct slot_rules) + 2 * sizeof(struct round_feedback) + 2 * sizeof(int32_t));
    bytes += sequences * slot_rules_bytes(options->vocabulary_size);
    bytes += (record_count(options) + prompt_record_count(options)) * sizeof(struct sluice_log_probability);
    bytes += (size_t)options->in_flight_limit * (sizeof(struct sent_feedback) + feedback_bytes(options));
    return bytes + (options->draft_limit > 0 ? drafting_bytes(options) : 0);
}

static size_t between_bytes(const struct round_runner_options *options) {
    return (size_t)options->in_flight_limit * sizeof(struct sent_seconds);
}

size_t round_runner_bytes(const struct round_runner_options *options, unsigned thread_count) {
    return (round_is_leader(options) ? leader_bytes(options) : 0) +
           (round_chooses(options) ? chooser_bytes(options, thread_count) : 0) +
           (round_passes_seconds(options) ? between_bytes(options) : 0);
}

static enum status alloc_drafting(struct round_runner *runner) {
    const struct round_runner_options *options = &runner->options;
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t sequences = (size_t)options->sequence_limit;
    runner->draft_logits = calloc(sequences * vocabulary, sizeof *runner->draft_logits);
    runner->draft_segments = calloc(sequences, sizeof *runner->draft_segments);
    runner->draft_snapshots = calloc(sequences, sizeof *runner->draft_snapshots);
    runner->draft_tokens = calloc((size_t)options->row_limit, sizeof *runner->draft_tokens);
    runner->draft_rows = calloc((size_t)options->row_limit, sizeof *runner->draft_rows);
    runner->drafting = calloc(sequences, sizeof *runner->drafting);
    CHECK_MEMORY(runner->draft_logits);
    CHECK_MEMORY(runner->draft_segments);
    CHECK_MEMORY(runner->draft_snapshots);
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

static enum status alloc_feedback(const struct round_runner *runner, void **memory, void **extra) {
    *memory = calloc(1, feedback_record_bytes(&runner->shape, runner->options.sequence_limit));
    *extra = calloc(1, feedback_extra_bytes_max(&runner->shape));
    CHECK_MEMORY(*memory);
    CHECK_MEMORY(*extra);
    return STATUS_OK;
}

static enum status alloc_scores(struct round_runner *runner) {
    size_t rows = logit_row_limit(&runner->options);
    runner->prompt_feedback = calloc((size_t)runner->options.sequence_limit, sizeof *runner->prompt_feedback);
    runner->prompt_records = calloc(prompt_record_count(&runner->options), sizeof *runner->prompt_records);
    runner->score_rows = calloc(rows, sizeof *runner->score_rows);
    runner->scores = calloc(rows, sizeof *runner->scores);
    CHECK_MEMORY(runner->prompt_feedback);
    CHECK_MEMORY(runner->prompt_records);
    CHECK_MEMORY(runner->score_rows);
    CHECK_MEMORY(runner->scores);
    return STATUS_OK;
}

static enum status alloc_choice(struct round_runner *runner) {
    const struct round_runner_options *options = &runner->options;
    size_t vocabulary = (size_t)options->vocabulary_size;
    size_t sequences = (size_t)options->sequence_limit;
    runner->workspaces = calloc(runner->thread_count, sizeof(struct sampler_workspace *));
    runner->rules = calloc(sequences, sizeof *runner->rules);
    runner->logits = calloc(logit_row_limit(options) * vocabulary, sizeof *runner->logits);
    runner->feedback = calloc(sequences, sizeof *runner->feedback);
    runner->records = calloc(record_count(options), sizeof *runner->records);
    runner->sent = calloc((size_t)options->in_flight_limit, sizeof *runner->sent);
    runner->first_logit_rows = calloc(sequences, sizeof *runner->first_logit_rows);
    runner->first_rows = calloc(sequences, sizeof *runner->first_rows);
    CHECK_MEMORY(runner->workspaces);
    CHECK_MEMORY(runner->rules);
    CHECK_MEMORY(runner->logits);
    CHECK_MEMORY(runner->feedback);
    CHECK_MEMORY(runner->records);
    CHECK_MEMORY(runner->sent);
    CHECK_MEMORY(runner->first_logit_rows);
    CHECK_MEMORY(runner->first_rows);
    for (unsigned i = 0; i < runner->thread_count; i++) {
        TRY(sampler_workspace_create(vocabulary, &runner->workspaces[i]));
    }
    for (size_t i = 0; i < sequences; i++) {
        TRY(slot_rules_init(&runner->rules[i], options->vocabulary_size));
    }
    for (int32_t i = 0; i < options->in_flight_limit; i++) {
        TRY(alloc_feedback(runner, &runner->sent[i].memory, &runner->sent[i].extra));
    }
    TRY(alloc_scores(runner));
    return options->draft_limit > 0 ? alloc_drafting(runner) : STATUS_OK;
}

static enum status alloc_leader(struct round_runner *runner) {
    runner->rounds = calloc((size_t)runner->options.in_flight_limit, sizeof *runner->rounds);
    runner->taken = calloc(2 * (size_t)runner->options.sequence_limit, sizeof *runner->taken);
    runner->reports = calloc(rank_count(&runner->options), sizeof *runner->reports);
    CHECK_MEMORY(runner->reports);
    CHECK_MEMORY(runner->rounds);
    CHECK_MEMORY(runner->taken);
    /* Which stage they are of is known before they say anything. */
    const struct executor_ranks *ranks = runner->options.ranks;
    for (int i = 1; i < (int)rank_count(&runner->options); i++) {
        runner->reports[i].stage = (i - ranks->control_first) / ranks->step.count;
    }
    return round_chooses(&runner->options)
               ? STATUS_OK
               : alloc_feedback(runner, &runner->received, &runner->received_extra);
}

enum status round_runner_create(const struct round_runner_options *options, struct round_runner **out) {
    enum status status = STATUS_OK;
    struct round_runner *runner = calloc(1, sizeof *runner);
    CHECK_MEMORY(runner);
    runner->options = *options;
    runner->shape = shape_of(options);
    if (round_is_leader(options)) {
        TRY_GOTO(alloc_leader(runner));
    }
    if (round_chooses(options)) {
        runner->thread_count = worker_pool_thread_count(options->pool);
        TRY_GOTO(alloc_choice(runner));
    }
    if (round_passes_seconds(options)) {
        runner->sent_seconds = calloc((size_t)options->in_flight_limit, sizeof *runner->sent_seconds);
        CHECK_MEMORY_GOTO(runner->sent_seconds);
    }
    *out = runner;
    return STATUS_OK;
fail:
    round_runner_destroy(&runner);
    return status;
}

static void free_choice(struct round_runner *runner) {
    for (unsigned i = 0; runner->workspaces != NULL && i < runner->thread_count; i++) {
        sampler_workspace_destroy(&runner->workspaces[i]);
    }
    for (int32_t i = 0; runner->rules != NULL && i < runner->options.sequence_limit; i++) {
        slot_rules_deinit(&runner->rules[i]);
    }
    for (int32_t i = 0; runner->sent != NULL && i < runner->options.in_flight_limit; i++) {
        free(runner->sent[i].memory);
        free(runner->sent[i].extra);
    }
    free(runner->workspaces);
    free(runner->rules);
    free(runner->logits);
    free(runner->feedback);
    free(runner->records);
    free(runner->prompt_feedback);
    free(runner->prompt_records);
    free(runner->score_rows);
    free(runner->scores);
    free(runner->sent);
    free(runner->first_logit_rows);
    free(runner->first_rows);
}

void round_runner_destroy(struct round_runner **runner_pointer) {
    struct round_runner *runner = *runner_pointer;
    if (runner == NULL) {
        return;
    }
    free_choice(runner);
    free(runner->rounds);
    free(runner->sent_seconds);
    free(runner->received);
    free(runner->received_extra);
    free(runner->taken);
    free(runner->reports);
    free(runner->draft_logits);
    free(runner->draft_probabilities);
    free(runner->draft_segments);
    free(runner->draft_snapshots);
    free(runner->draft_tokens);
    free(runner->draft_rows);
    free(runner->drafting);
    free(runner);
    *runner_pointer = NULL;
}
