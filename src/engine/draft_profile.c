/* Sequences have a page each, and are at the start of their contexts. */
#include "engine/draft_profile.h"

#include "base/clock.h"
#include "engine/lockstep.h"
#include "engine/profile_rounds.h"

enum { PROFILE_REPEATS = 3, PROFILE_SIZES_MAX = 32 };

static const double PROFILE_SECONDS = 0.5;

struct profile {
    struct round_runner *runner;
    struct profile_rounds rounds;
    double step_seconds[PROFILE_SIZES_MAX]; /* of 2^i rows, the fastest */
    double draft_seconds[PROFILE_SIZES_MAX];
    double end;           /* on the clock */
    struct comm *leaders; /* of replicas that share experts; NULL: there is one replica */
    uint64_t *exchanges;
};

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* A round of `rows` rows, with a draft for each sequence if there is one for each row; else all catch up. */
static enum status time_round(struct profile *profile, int32_t rows, struct round_result *result) {
    int32_t limit = profile->rounds.options.sequence_limit;
    bool has_drafts = rows <= limit;
    struct round_plan plan =
        profile_rounds_plan(&profile->rounds, &(struct profile_shape){.sequences = smaller(rows, limit),
                                                                      .rows = rows,
                                                                      .next_drafts = has_drafts,
                                                                      .has_draft_layer = true});
    plan.joint_draft_passes = has_drafts && profile->leaders != NULL ? 1 : 0;
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
    for (int i = 0; 1 << i <= profile->rounds.options.row_limit; i++) {
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
    int32_t sequences = profile->rounds.options.sequence_limit;
    for (int i = 0; i < PROFILE_SIZES_MAX && profile->step_seconds[i] > 0; i++) {
        int32_t rows = 1 << i;
        draft_controller_set_step_cost(controller, rows, profile->step_seconds[i]);
        for (int32_t drafts = 1; rows <= sequences && drafts <= draft_limit; drafts++) {
            draft_controller_set_draft_cost(controller, rows, drafts, drafts * profile->draft_seconds[i]);
        }
        if (rows > sequences) {
            draft_controller_set_prompt_cost(controller, rows, profile->draft_seconds[i]);
        }
    }
}

enum status draft_profile_measure(const struct engine_core *core, struct round_runner *runner,
                                  struct draft_controller *controller, uint64_t *exchanges) {
    int32_t sequences = smaller(core->options.sequence_limit, (int32_t)core->states.page_count);
    int32_t rows_each = smaller(core->options.draft.limit + 1, core->options.page_tokens);
    const struct profile_rounds_options options = {
        .sequence_limit = sequences,
        .row_limit = smaller(core->options.step_token_limit, sequences * rows_each),
        .pages_per_sequence = 1,
        .position_spread = 1,
        .vocabulary_size = core->model->vocabulary_size,
    };
    struct profile profile = {
        .leaders = core->ranks == NULL ? NULL : core->ranks->leaders,
        .exchanges = exchanges,
        .runner = runner,
        .end = clock_seconds() + PROFILE_SECONDS,
    };
    enum status status = profile_rounds_init(&profile.rounds, &options);
    for (int i = 0; i < PROFILE_REPEATS && status == STATUS_OK; i++) {
        status = time_sizes(&profile);
    }
    if (status == STATUS_OK) {
        tell(&profile, core->options.draft.limit, controller);
    }
    profile_rounds_deinit(&profile.rounds);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
