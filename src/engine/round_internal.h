/* What the round runner's files share. */
#ifndef SLUICE_ENGINE_ROUND_INTERNAL_H
#define SLUICE_ENGINE_ROUND_INTERNAL_H

#include "engine/round.h"

/* A row whose logits say how probable a token of a prompt is. */
struct round_score {
    int32_t segment;
    int32_t token;
    int32_t top_count;
    struct sluice_log_probability *record;
    enum status status;
};

struct round_runner {
    struct round_runner_options options;
    unsigned thread_count;
    struct sampler_workspace **workspaces; /* [thread_count] */
    float *logits;                         /* [logit row limit][vocabulary] */
    struct round_feedback *feedback;       /* [sequence_limit] */
    struct round_feedback *prompt_errors;  /* [sequence_limit] */
    int32_t *score_rows;                   /* [logit row limit] */
    struct round_score *scores;            /* [logit row limit] */
    int32_t *first_logit_rows;             /* [sequence_limit] of each feedback's segment */
    int32_t *first_rows;                   /* [sequence_limit] first row of each segment of the step */
    token_mask_word *masks;                /* [logit row limit][words of a mask] */
    const token_mask_word **row_masks;     /* [logit row limit]; NULL: all tokens */

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

/* Log-probabilities of one row, the token's own and the `top_count` likeliest, into a record. */
enum status round_record_log_probabilities(const struct round_runner *runner, const float *logits,
                                           int32_t token, int32_t top_count,
                                           struct sluice_log_probability *record);

/*
 * Records the log-probabilities of prompt tokens that the plan asks for, block by block: the choice's logits
 * are gone afterwards. Segments without a probability for some token go to runner->prompt_errors.
 */
enum status round_score(struct round_runner *runner, const struct round_plan *plan,
                        int32_t *prompt_error_count);

/* Runs the draft layer after the choice: catches up, then makes the drafts that the plan asks for. */
enum status round_draft(struct round_runner *runner, const struct round_plan *plan, int32_t feedback_count);

#endif
