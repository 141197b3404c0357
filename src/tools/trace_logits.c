/* Steps of as many tokens as the core takes, every row with logits; draft rows in slices of a draft pass. */
#include "tools/trace_logits.h"

#include <stdlib.h>

struct trace {
    struct engine_core *core;
    const int32_t *tokens;
    int32_t count;
    const struct logits_sink *sink;
    int32_t *rows; /* [step]: 0, 1, 2, ... */
    struct step_page_update *updates;
    int32_t update_count;
    float *logits; /* [step][vocabulary] */
};

static enum status check_tokens(const struct engine_core *core, const int32_t *tokens, size_t count) {
    int64_t context = core->options.context_tokens;
    CHECK(count >= 1 && count <= (size_t)context, STATUS_CONTEXT_FULL,
          "%zu tokens do not fit the context of %lld: raise --max-model-len", count, (long long)context);
    for (size_t i = 0; i < count; i++) {
        CHECK(tokens[i] >= 0 && tokens[i] < core->model->vocabulary_size, STATUS_OUT_OF_RANGE,
              "the prompt's token at index %zu has id %d, but the vocabulary has %lld ids", i, tokens[i],
              (long long)core->model->vocabulary_size);
    }
    return STATUS_OK;
}

static enum status alloc_trace(struct trace *trace) {
    size_t step = (size_t)trace->core->options.step_token_limit;
    size_t pages = (size_t)trace->core->states.pages_per_slot;
    trace->rows = calloc(step, sizeof *trace->rows);
    trace->updates = calloc(pages, sizeof *trace->updates);
    trace->logits = calloc(step * (size_t)trace->core->model->vocabulary_size, sizeof *trace->logits);
    CHECK_MEMORY(trace->rows);
    CHECK_MEMORY(trace->updates);
    CHECK_MEMORY(trace->logits);
    for (size_t i = 0; i < step; i++) {
        trace->rows[i] = (int32_t)i;
    }
    for (size_t i = 0; i < pages; i++) {
        trace->updates[i] = (struct step_page_update){.index = (int32_t)i, .page = (int32_t)i};
    }
    trace->update_count = (int32_t)pages;
    return STATUS_OK;
}

static enum status hand_out(const struct trace *trace, int32_t position, int32_t rows, bool is_draft) {
    for (int32_t i = 0; i < rows; i++) {
        TRY(trace->sink->take(trace->sink->context, position + i, is_draft,
                              trace->logits + i * trace->core->model->vocabulary_size));
    }
    return STATUS_OK;
}

/* The draft layer's rows of the last step from its row `row` on, as many as one pass takes. */
static enum status run_draft(const struct trace *trace, int32_t position, int32_t row, int32_t rows) {
    struct step_segment segment = {
        .first_position = position + row, .row_count = rows, .token_ids = trace->tokens + position + row + 1};
    struct draft_plan plan = {.segments = &segment,
                              .segment_count = 1,
                              .source = DRAFT_SOURCE_STEP,
                              .source_rows = trace->rows + row};
    TRY(executor_run_draft(trace->core->executor, &plan, trace->logits));
    return hand_out(trace, position + row, rows, true);
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static enum status run_step(struct trace *trace, int32_t position, int32_t rows) {
    struct step_segment segment = {
        .first_position = position, .row_count = rows, .token_ids = trace->tokens + position};
    struct step_plan plan = {.segments = &segment,
                             .segment_count = 1,
                             .logit_rows = trace->rows,
                             .logit_row_count = rows,
                             .page_updates = trace->updates,
                             .page_update_count = position == 0 ? trace->update_count : 0};
    TRY(executor_run(trace->core->executor, &plan, trace->logits));
    TRY(executor_check_logits(trace->core->executor, &plan, trace->logits));
    TRY(hand_out(trace, position, rows, false));
    int32_t draft_rows = smaller(rows, trace->count - 1 - position);
    int32_t limit = trace->core->options.sequence_limit;
    for (int32_t row = 0; trace->sink->wants_draft && row < draft_rows; row += limit) {
        TRY(run_draft(trace, position, row, smaller(draft_rows - row, limit)));
    }
    return STATUS_OK;
}

static enum status run_steps(struct trace *trace, const struct token_progress *progress) {
    int32_t step = trace->core->options.step_token_limit;
    TRY(alloc_trace(trace));
    for (int32_t position = 0; position < trace->count; position += step) {
        int32_t rows = smaller(trace->count - position, step);
        TRY(run_step(trace, position, rows));
        if (progress != NULL) {
            progress->report(progress->context, (size_t)(position + rows));
        }
    }
    return STATUS_OK;
}

enum status trace_logits(struct engine_core *core, const int32_t *tokens, size_t count,
                         const struct logits_sink *sink, const struct token_progress *progress) {
    CHECK(!sink->wants_draft || core->options.draft.limit > 0, STATUS_BAD_ARGUMENT,
          "the MTP layer's logits need a core with drafts");
    TRY(check_tokens(core, tokens, count));
    struct trace trace = {.core = core, .tokens = tokens, .count = (int32_t)count, .sink = sink};
    enum status status = run_steps(&trace, progress);
    free(trace.rows);
    free(trace.updates);
    free(trace.logits);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
