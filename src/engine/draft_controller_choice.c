/* A counting sort by chance, then one walk over the drafts: linear in candidates times limit. */
#include "engine/draft_controller_choice.h"

#include <stdlib.h>
#include <string.h>

enum { CHANCE_LEVELS = 1024 };

struct possible_draft {
    int16_t level; /* of the chance */
    int16_t position;
    int32_t candidate;
    float chance;
};

struct draft_choice {
    int32_t count;                   /* possible drafts of this tick */
    struct possible_draft *unsorted; /* [slot_count * draft_limit] */
    struct possible_draft *sorted;   /* likeliest first */
    double *first_seconds;           /* [slot_count + 1] of a first pass over so many sequences */
    double *later_seconds;
    int32_t level_ends[CHANCE_LEVELS + 1];
    int32_t pass_rows[DRAFT_LIMIT_MAX];
};

enum status draft_choice_create(int32_t slot_count, int32_t draft_limit, struct draft_choice **out) {
    enum status status = STATUS_OK;
    size_t drafts = (size_t)slot_count * (size_t)draft_limit;
    struct draft_choice *choice = calloc(1, sizeof *choice);
    CHECK_MEMORY(choice);
    choice->unsorted = calloc(drafts, sizeof *choice->unsorted);
    CHECK_MEMORY_GOTO(choice->unsorted);
    choice->sorted = calloc(drafts, sizeof *choice->sorted);
    CHECK_MEMORY_GOTO(choice->sorted);
    choice->first_seconds = calloc((size_t)slot_count + 1, sizeof *choice->first_seconds);
    CHECK_MEMORY_GOTO(choice->first_seconds);
    choice->later_seconds = calloc((size_t)slot_count + 1, sizeof *choice->later_seconds);
    CHECK_MEMORY_GOTO(choice->later_seconds);
    *out = choice;
    return STATUS_OK;
fail:
    draft_choice_destroy(&choice);
    return status;
}

void draft_choice_destroy(struct draft_choice **choice) {
    if (*choice != NULL) {
        free((*choice)->unsorted);
        free((*choice)->sorted);
        free((*choice)->first_seconds);
        free((*choice)->later_seconds);
        free(*choice);
        *choice = NULL;
    }
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Level 0 is the likeliest. */
static int32_t level_of(float chance) {
    int32_t level = (int32_t)((1 - chance) * CHANCE_LEVELS);
    return level < 0 ? 0 : least(level, CHANCE_LEVELS - 1);
}

static void collect(struct draft_choice *choice, const struct draft_acceptance *acceptance,
                    const struct draft_tick *tick, int32_t limit) {
    choice->count = 0;
    memset(choice->level_ends, 0, sizeof choice->level_ends);
    for (int32_t i = 0; i < tick->candidate_count; i++) {
        const struct draft_candidate *candidate = &tick->candidates[i];
        float chances[DRAFT_LIMIT_MAX];
        int32_t room = least(candidate->draft_room, limit);
        draft_acceptance_chances(acceptance, candidate->slot, room, chances);
        for (int32_t j = 0; j < room; j++) {
            int32_t level = level_of(chances[j]);
            choice->unsorted[choice->count++] =
                (struct possible_draft){(int16_t)level, (int16_t)j, i, chances[j]};
            choice->level_ends[level + 1]++;
        }
    }
}

/* Stable: within a level earlier candidates come first, and a sequence's drafts stay in order. */
static void sort_by_chance(struct draft_choice *choice) {
    for (int32_t level = 0; level < CHANCE_LEVELS; level++) {
        choice->level_ends[level + 1] += choice->level_ends[level];
    }
    for (int32_t i = 0; i < choice->count; i++) {
        const struct possible_draft *draft = &choice->unsorted[i];
        choice->sorted[choice->level_ends[draft->level]++] = *draft;
    }
}

/* Walks down the drafts. Best of each length: the best place to stop while the longest draft is that long. */
static void compare_lengths(struct draft_choice *choice, const struct draft_costs *costs,
                            const struct draft_tick *tick, struct draft_values *values) {
    const struct cost_curve *step = draft_costs_step(costs, tick->context_tokens);
    int32_t rows = tick->candidate_count + tick->other_rows;
    double tokens = tick->candidate_count;
    double passes = values->catch_up_seconds;
    double fixed_seconds = values->plain_seconds - values->step_seconds; /* prompts are paid for anyway */
    double prompt_share = draft_costs_prompt_share(costs, tick->candidate_count);
    int32_t broad = least(choice->count, least(tick->candidate_count, DRAFT_LEARNING_SEQUENCES));
    struct cost_line line = cost_curve_line(step, rows);
    memset(choice->pass_rows, 0, sizeof choice->pass_rows);
    for (int32_t m = 1; m <= choice->count; m++) {
        const struct possible_draft *draft = &choice->sorted[m - 1];
        const double *seconds = draft->position == 0 ? choice->first_seconds : choice->later_seconds;
        int32_t pass_rows = choice->pass_rows[draft->position]++;
        passes += seconds[pass_rows + 1] - seconds[pass_rows];
        tokens += draft->chance;
        if (rows + m > line.last_rows) {
            line = cost_curve_line(step, rows + m);
        }
        double step_seconds = line.seconds + line.seconds_per_row * (rows + m - line.first_rows);
        double all_seconds = fixed_seconds + step_seconds + passes + tokens * prompt_share;
        double gain = tokens / (all_seconds * values->plain_rate);
        if (m >= broad && gain > values->broad_gain) {
            values->broad_gain = gain;
        }
        bool is_longer = draft->position + 1 > values->length_max;
        if (is_longer) {
            values->length_max = draft->position + 1;
        }
        if (is_longer || gain > values->gain[values->length_max]) {
            values->gain[values->length_max] = gain;
            values->taken[values->length_max] = m;
        }
    }
    for (int32_t k = 1; k <= values->length_max; k++) {
        if (values->gain[k] > values->gain[values->best_length]) {
            values->best_length = k;
        }
    }
}

void draft_choice_evaluate(struct draft_choice *choice, const struct draft_costs *costs,
                           const struct draft_acceptance *acceptance, const struct draft_tick *tick,
                           int32_t limit, struct draft_values *values) {
    *values = (struct draft_values){.gain = {1}};
    const struct cost_curve *step = draft_costs_step(costs, tick->context_tokens);
    int32_t count = tick->candidate_count;
    values->plain_seconds = cost_curve_at(step, count);
    choice->count = 0;
    if (values->plain_seconds <= 0) {
        return;
    }
    values->plain_rate = count / values->plain_seconds;
    values->step_seconds = cost_curve_at(step, count + tick->other_rows);
    values->catch_up_seconds = cost_curve_at(&costs->catch_up, count);
    collect(choice, acceptance, tick, limit);
    sort_by_chance(choice);
    for (int32_t i = 0; i <= count; i++) {
        choice->first_seconds[i] = cost_curve_at(&costs->first_pass, i);
        choice->later_seconds[i] = cost_curve_at(&costs->later_pass, i);
    }
    compare_lengths(choice, costs, tick, values);
}

void draft_choice_assign(const struct draft_choice *choice, int32_t taken, int32_t candidate_count,
                         int32_t *drafts) {
    memset(drafts, 0, (size_t)candidate_count * sizeof *drafts);
    for (int32_t m = 0; m < taken; m++) {
        drafts[choice->sorted[m].candidate]++;
    }
}
