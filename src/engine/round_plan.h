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
#include "engine/sequence.h"
#include "engine/step_plan.h"

/* What a segment of the step is for. Its last `draft_count` rows are drafts. */
struct round_segment {
    struct sequence_rules *rules;
    int32_t draft_count;
    bool is_sampled;       /* the row before the drafts and all drafts have logits: the next ones in order */
    int32_t answer_index;  /* of the first token chosen, for log-probabilities */
    int32_t catch_up_rows; /* of the rows before the drafts the last ones, whose draft state is written */
    int32_t following_token;      /* the token after the segment's rows if it is not sampled */
    int32_t next_draft_count;     /* drafts to make for the next round */
    int32_t token_room;           /* tokens that the sequence may still get, at least 1 */
    int32_t first_scored_row;     /* rows of the segment from here on and below end_scored_row record the */
    int32_t end_scored_row;       /* log-probability of the token after them, which is the prompt's */
    const int32_t *scored_tokens; /* [end_scored_row - first_scored_row] those tokens */
    int32_t score_index;          /* record of the first of them */
    int32_t saved_row; /* catch up from the saved row of this slot, for the position before; -1: no */
};

struct round_plan {
    struct step_plan step;
    const struct round_segment *segments; /* [step.segment_count] */
    enum draft_regime regime;
};

/* What a sampled segment gave. */
struct round_feedback {
    int32_t segment;
    int32_t accepted_drafts;
    int32_t token_count; /* 1 and more, unless `status` says that the row has no distribution */
    int32_t tokens[DRAFT_LIMIT_MAX + 1];
    int32_t draft_count;
    int32_t drafts[DRAFT_LIMIT_MAX];
    enum status status;
    char message[512];
};

struct round_result {
    struct round_feedback *feedback; /* [sampled segments], in order */
    int32_t feedback_count;
    struct round_feedback *prompt_errors; /* of segments some of whose prompt tokens have no probability */
    int32_t prompt_error_count;
    double step_seconds;  /* layers, head, choice */
    double draft_seconds; /* the draft layer */
};

#endif
