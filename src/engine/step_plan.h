/*
 * A step plan: all that decides one forward step, made in one place and executed as it stands.
 *
 * Nothing that executes a plan derives a position, a size or a count from state of its own (spec parallelism
 * P-15, P-16).
 */
#ifndef SLUICE_ENGINE_STEP_PLAN_H
#define SLUICE_ENGINE_STEP_PLAN_H

#include <stdint.h>

/* Consecutive tokens of one sequence. */
struct step_segment {
    int32_t slot;
    int32_t first_position;
    int32_t row_count;
    const int32_t *token_ids; /* [row_count], borrowed */
};

struct step_plan {
    const struct step_segment *segments;
    int32_t segment_count;
    const int32_t *logit_rows; /* rows of the step, counted over all segments, whose logits are wanted */
    int32_t logit_row_count;
};

#endif
