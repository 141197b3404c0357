/*
 * A round: one step of the layers, the choice of tokens, and the drafts for the next round.
 *
 * The scheduler makes the plan, the round runner executes it, and what it chose goes back in one record per
 * sampled segment (spec parallelism P-34 to P-36).
 */
#ifndef SLUICE_ENGINE_ROUND_PLAN_H
#define SLUICE_ENGINE_ROUND_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft_controller.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

/* What a segment of the step is for. Its last `draft_count` rows are drafts. */
struct round_segment {
    uint32_t generation; /* of its slot */
    int32_t draft_count;
    bool is_sampled;       /* the row before the drafts and all drafts have logits: the next ones in order */
    int32_t catch_up_rows; /* of the rows before the drafts the last ones, whose draft state is written */
    int32_t following_token;  /* the token after the segment's rows if it is not sampled */
    int32_t next_draft_count; /* drafts to make for the next round */
    int32_t token_room;       /* tokens that the sequence may still get, at least 1 */
    int32_t first_scored_row; /* rows of the segment from here on and below end_scored_row record the */
    int32_t end_scored_row;   /* log-probability of the token after them, which is the prompt's */
    int32_t saved_row;        /* catch up from the saved row of this slot, for the position before; -1: no */
    int32_t kept_row;         /* of the segment: its boundary row is kept for the slot; -1: none */
};

/* A sequence gets its slot with this round: what the choice of its tokens needs. */
struct round_start {
    int32_t slot;
    uint32_t generation;
    const struct sequence_rules *rules; /* its constraint and its records are not looked at */
    const int32_t *tokens;              /* prompt, then answer so far; stay until the round is finished */
    int32_t prompt_count;               /* of them, those that do not count as output */
    int32_t token_count;
};

struct round_plan {
    struct step_plan step;
    const struct round_segment *segments; /* [step.segment_count] */
    enum draft_regime regime;
    const struct round_start *starts;
    int32_t start_count;
    const token_mask_word *const *row_masks; /* [step.logit_row_count]: what rows may choose, NULL: anything;
                                                NULL: all may choose anything */
    int32_t group;                           /* of sequences whose tokens are chosen */
    /* Draft passes of the round in all replicas that share experts, rows or not (M-39); 0: as needed. */
    int32_t joint_draft_passes;
    /* For who plans, and not sent to others: [step.segment_count]. */
    struct sequence *const *sequences;
};

/* What a sampled segment gave. */
struct round_feedback {
    int32_t segment;
    int32_t accepted_drafts;
    int32_t token_count; /* 1 and more, unless `status` says that the row has no distribution */
    int32_t tokens[DRAFT_LIMIT_MAX + 1];
    int32_t draft_count;
    int32_t drafts[DRAFT_LIMIT_MAX];
    int32_t recorded_tokens;                                /* the first ones, which have log-probabilities */
    int32_t record_width;                                   /* of each: the token's own, then the likeliest */
    const struct sluice_log_probability *log_probabilities; /* [recorded_tokens][record_width] */
    enum status status;
    char message[512];
};

struct round_result {
    struct round_feedback *feedback; /* [sampled segments], in order */
    int32_t feedback_count;
    /* Of segments with scored rows: their records, or why some prompt token has no probability. */
    struct round_feedback *prompt_feedback;
    int32_t prompt_feedback_count;
    /* What the round takes of the ranks' time by the work of their stages (stage_seconds.h): */
    double step_seconds;  /* layers, head, choice */
    double draft_seconds; /* what the draft layer adds */
    /* On the clock: */
    double added_seconds;       /* what the round added to the time of those before it */
    double draft_layer_seconds; /* the draft layer's part of the last stage's time */
    bool is_empty;              /* the round had no rows: other replicas' did */
};

#endif
