/* Slots, pages and starts are the same in every round, so that rounds of any size may follow each other. */
#include "engine/profile_rounds.h"

#include <stdlib.h>

#include "base/spread.h"

static enum status alloc_arrays(struct profile_rounds *rounds) {
    size_t sequences = (size_t)rounds->options.sequence_limit;
    size_t rows = (size_t)rounds->options.row_limit;
    rounds->steps = calloc(sequences, sizeof *rounds->steps);
    rounds->segments = calloc(sequences, sizeof *rounds->segments);
    rounds->updates = calloc(sequences * (size_t)rounds->options.pages_per_sequence, sizeof *rounds->updates);
    rounds->starts = calloc(sequences, sizeof *rounds->starts);
    rounds->logit_rows = calloc(rows, sizeof *rounds->logit_rows);
    rounds->tokens = calloc(rows, sizeof *rounds->tokens);
    CHECK_MEMORY(rounds->steps);
    CHECK_MEMORY(rounds->segments);
    CHECK_MEMORY(rounds->updates);
    CHECK_MEMORY(rounds->starts);
    CHECK_MEMORY(rounds->logit_rows);
    CHECK_MEMORY(rounds->tokens);
    return STATUS_OK;
}

enum status profile_rounds_init(struct profile_rounds *rounds, const struct profile_rounds_options *options) {
    *rounds = (struct profile_rounds){
        .options = *options, .rules = {.sampling = sluice_sampling_default(), .log_probability_count = -1}};
    rounds->rules.sampling.temperature = 0.0;
    TRY(alloc_arrays(rounds));
    for (int32_t slot = 0; slot < options->sequence_limit; slot++) {
        rounds->starts[slot] = (struct round_start){.slot = slot, .rules = &rounds->rules};
        for (int32_t i = 0; i < options->pages_per_sequence; i++) {
            int32_t page = slot * options->pages_per_sequence + i;
            rounds->updates[page] = (struct step_page_update){.slot = slot, .index = i, .page = page};
        }
    }
    for (int32_t i = 0; i < options->row_limit; i++) {
        rounds->tokens[i] = (int32_t)spread_number((uint32_t)i, (uint64_t)options->vocabulary_size);
    }
    return STATUS_OK;
}

void profile_rounds_deinit(struct profile_rounds *rounds) {
    free(rounds->steps);
    free(rounds->segments);
    free(rounds->updates);
    free(rounds->starts);
    free(rounds->logit_rows);
    free(rounds->tokens);
}

/* Returns how many rows have logits: the last one of each sequence that is no draft, and its drafts. */
static int32_t fill_segments(struct profile_rounds *rounds, const struct profile_shape *shape) {
    int32_t end = 0;
    int32_t logits = 0;
    for (int32_t i = 0; i < shape->sequences; i++) {
        int32_t rows = shape->rows / shape->sequences + (i < shape->rows % shape->sequences);
        bool catches_up = shape->has_draft_layer && shape->next_drafts == 0;
        rounds->steps[i] = (struct step_segment){.slot = i,
                                                 .first_position = rounds->options.first_position +
                                                                   i % rounds->options.position_spread,
                                                 .row_count = rows,
                                                 .token_ids = rounds->tokens + end};
        rounds->segments[i] =
            (struct round_segment){.is_sampled = true,
                                   .draft_count = shape->verified_drafts,
                                   .catch_up_rows = catches_up ? rows - shape->verified_drafts : 0,
                                   .next_draft_count = shape->next_drafts,
                                   .token_room = shape->verified_drafts + shape->next_drafts + 2,
                                   .saved_row = -1,
                                   .kept_row = -1};
        end += rows;
        for (int32_t row = end - 1 - shape->verified_drafts; row < end; row++) {
            rounds->logit_rows[logits++] = row;
        }
    }
    return logits;
}

struct round_plan profile_rounds_plan(struct profile_rounds *rounds, const struct profile_shape *shape) {
    int32_t logit_rows = fill_segments(rounds, shape);
    return (struct round_plan){
        .step = {.segments = rounds->steps,
                 .segment_count = shape->sequences,
                 .logit_rows = rounds->logit_rows,
                 .logit_row_count = logit_rows,
                 .page_updates = rounds->updates,
                 .page_update_count = shape->sequences * rounds->options.pages_per_sequence},
        .segments = rounds->segments,
        .regime = !shape->has_draft_layer  ? DRAFT_REGIME_COLD
                  : shape->next_drafts > 0 ? DRAFT_REGIME_DRAFT
                                           : DRAFT_REGIME_WARM,
        .starts = rounds->starts,
        .start_count = shape->sequences};
}
