/*
 * Every sequence of the profile is one segment with a page of its own, at the start of its context. Tokens
 * are from all over the vocabulary: equal ones would all go to the same experts, and many rows seem cheap.
 */
#include "engine/draft_profile.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/spread.h"
#include "engine/lockstep.h"

enum { PROFILE_REPEATS = 3, PROFILE_SIZES_MAX = 32 };

static const double PROFILE_SECONDS = 0.5;

struct profile {
    struct round_runner *runner;
    int32_t sequence_limit; /* sequences with a page each */
    int32_t row_limit;      /* rows of one segment */
    struct step_segment *steps;
    struct round_segment *segments;
    struct step_page_update *updates;
    struct round_start *starts;
    struct sequence_rules rules;            /* greedy */
    int32_t *tokens;                        /* [rows_most] */
    int32_t rows_most;                      /* of a round */
    double step_seconds[PROFILE_SIZES_MAX]; /* of 2^i rows, the fastest */
    double draft_seconds[PROFILE_SIZES_MAX];
    int32_t *logit_rows;  /* [sequence_limit]: the last of each segment */
    double end;           /* on the clock */
    struct comm *leaders; /* of replicas that share experts; NULL: there is one replica */
    uint64_t *exchanges;
};

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Tokens from all over the vocabulary: each embedding, and the experts of each, from elsewhere. */
static void spread_tokens(struct profile *profile, int64_t vocabulary_size) {
    for (int32_t i = 0; i < profile->rows_most; i++) {
        profile->tokens[i] = (int32_t)spread_number((uint32_t)i, (uint64_t)vocabulary_size);
    }
}

static enum status alloc_profile(struct profile *profile) {
    size_t sequences = (size_t)profile->sequence_limit;
    profile->steps = calloc(sequences, sizeof *profile->steps);
    profile->segments = calloc(sequences, sizeof *profile->segments);
    profile->updates = calloc(sequences, sizeof *profile->updates);
    profile->starts = calloc(sequences, sizeof *profile->starts);
    profile->logit_rows = calloc(sequences, sizeof *profile->logit_rows);
    profile->tokens = calloc((size_t)profile->rows_most, sizeof *profile->tokens);
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
            (struct step_segment){.slot = i, .row_count = of_segment, .token_ids = profile->tokens + end};
        profile->segments[i] = (struct round_segment){.is_sampled = true,
                                                      .catch_up_rows = drafts > 0 ? 0 : of_segment,
                                                      .next_draft_count = drafts,
                                                      .token_room = drafts + 2,
                                                      .saved_row = -1,
                                                      .kept_row = -1};
        end += of_segment;
        profile->logit_rows[i] = end - 1;
    }
    return count;
}

/* A round of `rows` rows, with a draft for each sequence if there is one for each row; else all catch up. */
static enum status time_round(struct profile *profile, int32_t rows, struct round_result *result) {
    bool has_drafts = rows <= profile->sequence_limit;
    int32_t count = fill_segments(profile, rows, has_drafts);
    struct round_plan plan = {.step = {.segments = profile->steps,
                                       .segment_count = count,
                                       .logit_rows = profile->logit_rows,
                                       .logit_row_count = count,
                                       .page_updates = profile->updates,
                                       .page_update_count = count},
                              .segments = profile->segments,
                              .regime = has_drafts ? DRAFT_REGIME_DRAFT : DRAFT_REGIME_WARM,
                              .joint_draft_passes = has_drafts && profile->leaders != NULL ? 1 : 0,
                              .starts = profile->starts,
                              .start_count = count};
    TRY(round_start(profile->runner, &plan));
    return round_finish(profile->runner, result);
}

static double faster(double before, double seconds) {
    return before > 0 && before < seconds ? before : seconds;
}

/* Whether there is time for another round, in all replicas. */
static enum status look_at_clock(struct profile *profile, bool *goes_on) {
    const struct lockstep_wish wish = {.rows = clock_seconds() < profile->end ? 1 : 0};
    struct lockstep_tick tick = {.rows = wish.rows};
    if (profile->leaders != NULL) {
        TRY(lockstep_agree(profile->leaders, ++*profile->exchanges, &wish, &tick));
    }
    *goes_on = tick.rows == (profile->leaders == NULL ? 1 : comm_size(profile->leaders));
    return STATUS_OK;
}

/* All sizes in turn, so that a moment in which the machine is slow does not bend the curve. */
static enum status time_sizes(struct profile *profile) {
    for (int i = 0; 1 << i <= profile->rows_most; i++) {
        struct round_result result;
        bool goes_on;
        TRY(look_at_clock(profile, &goes_on));
        if (!goes_on) {
            return STATUS_OK;
        }
        TRY(time_round(profile, 1 << i, &result));
        profile->step_seconds[i] = faster(profile->step_seconds[i], result.step_seconds);
        profile->draft_seconds[i] = faster(profile->draft_seconds[i], result.draft_seconds);
    }
    return STATUS_OK;
}

static void tell(const struct profile *profile, int32_t draft_limit, struct draft_controller *controller) {
    for (int i = 0; i < PROFILE_SIZES_MAX && profile->step_seconds[i] > 0; i++) {
        int32_t rows = 1 << i;
        draft_controller_set_step_cost(controller, rows, profile->step_seconds[i]);
        for (int32_t drafts = 1; rows <= profile->sequence_limit && drafts <= draft_limit; drafts++) {
            draft_controller_set_draft_cost(controller, rows, drafts, drafts * profile->draft_seconds[i]);
        }
        if (rows > profile->sequence_limit) {
            draft_controller_set_prompt_cost(controller, rows, profile->draft_seconds[i]);
        }
    }
}

enum status draft_profile_measure(const struct engine_core *core, struct round_runner *runner,
                                  struct draft_controller *controller, uint64_t *exchanges) {
    struct profile profile = {
        .leaders = core->ranks == NULL ? NULL : core->ranks->leaders,
        .exchanges = exchanges,
        .runner = runner,
        .sequence_limit = smaller(core->options.sequence_limit, (int32_t)core->states.page_count),
        .row_limit = smaller(core->options.draft.limit + 1, core->options.page_tokens),
        .end = clock_seconds() + PROFILE_SECONDS,
    };
    profile.rows_most = smaller(core->options.step_token_limit, profile.sequence_limit * profile.row_limit);
    enum status status = alloc_profile(&profile);
    if (status == STATUS_OK) {
        spread_tokens(&profile, core->model->vocabulary_size);
        for (int i = 0; i < PROFILE_REPEATS && status == STATUS_OK; i++) {
            status = time_sizes(&profile);
        }
        tell(&profile, core->options.draft.limit, controller);
    }
    free_profile(&profile);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
