/* What the round runner's files share. */
#ifndef SLUICE_ENGINE_ROUND_INTERNAL_H
#define SLUICE_ENGINE_ROUND_INTERNAL_H

#include "engine/round.h"

struct round_runner {
    struct round_runner_options options;
    unsigned thread_count;
    struct sampler_workspace **workspaces; /* [thread_count] */
    float *logits;                         /* [logit rows of a step][vocabulary] */
    struct round_feedback *feedback;       /* [sequence_limit] */
    int32_t *first_logit_rows;             /* [sequence_limit] of each feedback's segment */
    int32_t *first_rows;                   /* [sequence_limit] first row of each segment of the step */
    token_mask_word *masks;                /* [logit rows of a step][words of a mask] */
    const token_mask_word **row_masks;     /* [logit rows of a step]; NULL: all tokens */

    /* Drafting; NULL without it. */
    float *draft_logits;                 /* [sequence_limit][vocabulary] */
    float *draft_probabilities;          /* [sequence_limit by slot][draft_limit][vocabulary]: rejection */
    struct step_segment *draft_segments; /* [sequence_limit] */
    int32_t *draft_tokens;               /* [row_limit] */
    int32_t *draft_rows;                 /* [row_limit] */
    int32_t *drafting;                   /* [sequence_limit] feedback that goes on drafting */
    int32_t drafting_count;
};

static inline int64_t round_mask_words(const struct round_runner *runner) {
    return (runner->options.vocabulary_size + 31) / 32;
}

/* Rows of a step that have logits at most: one per sequence and its drafts. */
static inline int32_t round_logit_row_limit(const struct round_runner_options *options) {
    int64_t rows = (int64_t)options->sequence_limit * (1 + options->draft_limit);
    return (int32_t)(rows < options->row_limit ? rows : options->row_limit);
}

/* Probabilities that the draft `index` of the sequence in `slot` was drawn from; NULL if they are not kept.
 */
static inline float *round_draft_probabilities(const struct round_runner *runner, int32_t slot,
                                               int32_t index) {
    int64_t row = (int64_t)slot * runner->options.draft_limit + index;
    return runner->draft_probabilities == NULL
               ? NULL
               : runner->draft_probabilities + row * runner->options.vocabulary_size;
}

/* Chooses the tokens of all sampled segments from runner->logits. */
enum status round_choose(struct round_runner *runner, const struct round_plan *plan, int32_t *feedback_count);

/* Runs the draft layer after the choice: catches up, then makes the drafts that the plan asks for. */
enum status round_draft(struct round_runner *runner, const struct round_plan *plan, int32_t feedback_count);

#endif
