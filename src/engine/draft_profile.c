/* Every sequence of the profile is one segment with a page of its own, at the start of its context. */
#include "engine/draft_profile.h"

#include <stdlib.h>

#include "base/clock.h"

enum { PROFILE_REPEATS = 2 };

static const double PROFILE_SECONDS = 0.5;

struct profile {
    struct engine_core *core;
    int32_t sequence_limit; /* sequences with a page each */
    int32_t row_limit;      /* rows of one segment */
    struct step_segment *segments;
    struct step_page_update *updates;
    int32_t *tokens; /* [row_limit]: zeros */
    int32_t *rows;   /* [sequence_limit]: 0, 1, 2, ... */
    float *logits;   /* [sequence_limit][vocabulary] */
    double end;      /* on the clock */
};

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static enum status alloc_profile(struct profile *profile) {
    size_t sequences = (size_t)profile->sequence_limit;
    profile->segments = calloc(sequences, sizeof *profile->segments);
    profile->updates = calloc(sequences, sizeof *profile->updates);
    profile->rows = calloc(sequences, sizeof *profile->rows);
    profile->tokens = calloc((size_t)profile->row_limit, sizeof *profile->tokens);
    profile->logits =
        calloc(sequences * (size_t)profile->core->model->vocabulary_size, sizeof *profile->logits);
    CHECK_MEMORY(profile->segments);
    CHECK_MEMORY(profile->updates);
    CHECK_MEMORY(profile->rows);
    CHECK_MEMORY(profile->tokens);
    CHECK_MEMORY(profile->logits);
    for (int32_t i = 0; i < profile->sequence_limit; i++) {
        profile->rows[i] = i;
        profile->updates[i] = (struct step_page_update){.slot = i, .index = 0, .page = i};
    }
    return STATUS_OK;
}

static void free_profile(struct profile *profile) {
    free(profile->segments);
    free(profile->updates);
    free(profile->rows);
    free(profile->tokens);
    free(profile->logits);
}

/* Shares `rows` out over as many sequences as there are; returns how many have some. */
static int32_t fill_segments(struct profile *profile, int32_t rows) {
    int32_t count = smaller(rows, profile->sequence_limit);
    for (int32_t i = 0; i < count; i++) {
        profile->segments[i] = (struct step_segment){
            .slot = i, .row_count = rows / count + (i < rows % count), .token_ids = profile->tokens};
    }
    return count;
}

/* Seconds of the faster of two runs. */
static enum status time_step(struct profile *profile, int32_t rows, double *best) {
    int32_t count = fill_segments(profile, rows);
    struct step_plan plan = {.segments = profile->segments,
                             .segment_count = count,
                             .logit_rows = profile->rows,
                             .logit_row_count = count,
                             .page_updates = profile->updates,
                             .page_update_count = count};
    *best = 0.0;
    for (int i = 0; i < PROFILE_REPEATS; i++) {
        double started = clock_seconds();
        TRY(executor_run(profile->core->executor, &plan, profile->logits));
        double seconds = clock_seconds() - started;
        *best = i == 0 || seconds < *best ? seconds : *best;
    }
    return STATUS_OK;
}

static enum status time_draft(struct profile *profile, int32_t sequences, double *best) {
    struct draft_plan plan = {.segments = profile->segments,
                              .segment_count = fill_segments(profile, sequences),
                              .source = DRAFT_SOURCE_STEP,
                              .source_rows = profile->rows};
    *best = 0.0;
    for (int i = 0; i < PROFILE_REPEATS; i++) {
        double started = clock_seconds();
        TRY(executor_run_draft(profile->core->executor, &plan, profile->logits));
        double seconds = clock_seconds() - started;
        *best = i == 0 || seconds < *best ? seconds : *best;
    }
    return STATUS_OK;
}

static enum status measure(struct profile *profile, struct draft_controller *controller) {
    int32_t draft_limit = profile->core->options.draft.limit;
    int32_t rows_limit =
        smaller(profile->core->options.step_token_limit, profile->sequence_limit * profile->row_limit);
    for (int32_t rows = 1; rows <= rows_limit && clock_seconds() < profile->end; rows *= 2) {
        double seconds;
        TRY(time_step(profile, rows, &seconds));
        draft_controller_set_step_cost(controller, rows, seconds);
        if (rows <= profile->sequence_limit) {
            TRY(time_draft(profile, rows, &seconds));
            for (int32_t drafts = 1; drafts <= draft_limit; drafts++) {
                draft_controller_set_draft_cost(controller, rows, drafts, drafts * seconds);
            }
        }
    }
    return STATUS_OK;
}

enum status draft_profile_measure(struct engine_core *core, struct draft_controller *controller) {
    struct profile profile = {
        .core = core,
        .sequence_limit = smaller(core->options.sequence_limit, core->states.page_count),
        .row_limit = smaller(core->options.draft.limit + 1, core->options.page_tokens),
        .end = clock_seconds() + PROFILE_SECONDS,
    };
    enum status status = alloc_profile(&profile);
    if (status == STATUS_OK) {
        status = measure(&profile, controller);
    }
    free_profile(&profile);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
