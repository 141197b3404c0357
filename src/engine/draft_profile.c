/* Every sequence of the profile is one segment with a page of its own, at the start of its context. */
#include "engine/draft_profile.h"

#include <stdlib.h>

#include "base/clock.h"

enum { PROFILE_REPEATS = 2 };

static const double PROFILE_SECONDS = 0.5;

struct profile {
    struct round_runner *runner;
    int32_t sequence_limit; /* sequences with a page each */
    int32_t row_limit;      /* rows of one segment */
    struct step_segment *steps;
    struct round_segment *segments;
    struct step_page_update *updates;
    struct round_start *starts;
    struct sequence_rules rules; /* greedy */
    int32_t *tokens;             /* [row_limit]: zeros */
    int32_t *logit_rows;         /* [sequence_limit]: the last of each segment */
    double end;                  /* on the clock */
};

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static enum status alloc_profile(struct profile *profile) {
    size_t sequences = (size_t)profile->sequence_limit;
    profile->steps = calloc(sequences, sizeof *profile->steps);
    profile->segments = calloc(sequences, sizeof *profile->segments);
    profile->updates = calloc(sequences, sizeof *profile->updates);
    profile->starts = calloc(sequences, sizeof *profile->starts);
    profile->logit_rows = calloc(sequences, sizeof *profile->logit_rows);
    profile->tokens = calloc((size_t)profile->row_limit, sizeof *profile->tokens);
    CHECK_MEMORY(profile->steps);
    CHECK_MEMORY(profile->segments);
    CHECK_MEMORY(profile->updates);
    CHECK_MEMORY(profile->starts);
    CHECK_MEMORY(profile->logit_rows);
    CHECK_MEMORY(profile->tokens);
    profile->rules =
        (struct sequence_rules){.sampling = sluice_sampling_default(), .log_probability_count = -1};
    profile->rules.sampling.temperature = 0.0;
    for (int32_t i = 0; i < profile->sequence_limit; i++) {
        profile->updates[i] = (struct step_page_update){.slot = i, .index = 0, .page = i};
        profile->starts[i] = (struct round_start){.slot = i, .rules = &profile->rules};
    }
    return STATUS_OK;
}

static void free_profile(struct profile *profile) {
    free(profile->steps);
    free(profile->segments);
    free(profile->updates);
    free(profile->starts);
    free(profile->logit_rows);
    free(profile->tokens);
}

/* Shares `rows` out over as many sequences as there are; returns how many have some. */
static int32_t fill_segments(struct profile *profile, int32_t rows, int32_t drafts) {
    int32_t count = smaller(rows, profile->sequence_limit);
    int32_t end = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t of_segment = rows / count + (i < rows % count);
        profile->steps[i] =
            (struct step_segment){.slot = i, .row_count = of_segment, .token_ids = profile->tokens};
        profile->segments[i] = (struct round_segment){.is_sampled = true,
                                                      .next_draft_count = drafts,
                                                      .token_room = drafts + 2,
                                                      .saved_row = -1,
                                                      .kept_row = -1};
        end += of_segment;
        profile->logit_rows[i] = end - 1;
    }
    return count;
}

/* The fastest of some rounds of `rows` rows, with a draft for each sequence if there is one for each row. */
static enum status time_rounds(struct profile *profile, int32_t rows, double *step, double *draft) {
    bool has_drafts = rows <= profile->sequence_limit;
    int32_t count = fill_segments(profile, rows, has_drafts);
    struct round_plan plan = {.step = {.segments = profile->steps,
                                       .segment_count = count,
                                       .logit_rows = profile->logit_rows,
                                       .logit_row_count = count,
                                       .page_updates = profile->updates,
                                       .page_update_count = count},
                              .segments = profile->segments,
                              .regime = has_drafts ? DRAFT_REGIME_DRAFT : DRAFT_REGIME_COLD,
                              .starts = profile->starts,
                              .start_count = count};
    for (int i = 0; i < PROFILE_REPEATS; i++) {
        struct round_result result;
        TRY(round_start(profile->runner, &plan));
        TRY(round_finish(profile->runner, &result));
        *step = i == 0 || result.step_seconds < *step ? result.step_seconds : *step;
        *draft = i == 0 || result.draft_seconds < *draft ? result.draft_seconds : *draft;
    }
    return STATUS_OK;
}

static enum status measure(struct profile *profile, const struct engine_core *core,
                           struct draft_controller *controller) {
    int32_t rows_limit =
        smaller(core->options.step_token_limit, profile->sequence_limit * profile->row_limit);
    for (int32_t rows = 1; rows <= rows_limit && clock_seconds() < profile->end; rows *= 2) {
        double step;
        double draft;
        TRY(time_rounds(profile, rows, &step, &draft));
        draft_controller_set_step_cost(controller, rows, step);
        for (int32_t drafts = 1; rows <= profile->sequence_limit && drafts <= core->options.draft.limit;
             drafts++) {
            draft_controller_set_draft_cost(controller, rows, drafts, drafts * draft);
        }
    }
    return STATUS_OK;
}

enum status draft_profile_measure(const struct engine_core *core, struct round_runner *runner,
                                  struct draft_controller *controller) {
    struct profile profile = {
        .runner = runner,
        .sequence_limit = smaller(core->options.sequence_limit, (int32_t)core->states.page_count),
        .row_limit = smaller(core->options.draft.limit + 1, core->options.page_tokens),
        .end = clock_seconds() + PROFILE_SECONDS,
    };
    enum status status = alloc_profile(&profile);
    if (status == STATUS_OK) {
        status = measure(&profile, core, controller);
    }
    free_profile(&profile);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
