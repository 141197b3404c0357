/*
 * A step plan: all that decides one forward step, made in one place and executed as it stands.
 *
 * Nothing that executes a plan derives a position, a size or a count from state of its own (spec parallelism
 * P-15, P-16). All arrays are borrowed and must live until the step is done.
 */
#ifndef SLUICE_ENGINE_STEP_PLAN_H
#define SLUICE_ENGINE_STEP_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* Consecutive tokens of one sequence. */
struct step_segment {
    int32_t slot;
    int32_t first_position;
    int32_t row_count;
    const int32_t *token_ids; /* [row_count] */
};

/* Entry `index` of a slot's page table becomes `page`. */
struct step_page_update {
    int32_t slot;
    int32_t index;
    int32_t page;
};

/* All rows that are kept by slot (rings), from one slot to another. */
struct step_slot_copy {
    int32_t from_slot;
    int32_t to_slot;
};

/*
 * In order: page updates; draft rings of `cleared_slots` are filled with zeros (a slot's draft layer never
 * sees rows of the sequence before); copies `before`; the layers; the wanted logits. Copies `after` are made
 * by whoever ends the round, once draft rows are written too.
 */
struct step_plan {
    const struct step_segment *segments;
    int32_t segment_count;
    const int32_t *logit_rows; /* rows of the step, counted over all segments, whose logits are wanted */
    int32_t logit_row_count;
    const struct step_page_update *page_updates;
    int32_t page_update_count;
    const int32_t *cleared_slots;
    int32_t cleared_slot_count;
    const struct step_slot_copy *copies_before;
    int32_t copy_before_count;
};

/* Where a draft pass finds the streams of the rows it goes on from. */
enum draft_source {
    DRAFT_SOURCE_STEP,  /* the boundary that the last step left */
    DRAFT_SOURCE_DRAFT, /* what the last draft pass that wanted logits left */
    DRAFT_SOURCE_SAVED, /* rows kept beside snapshots, by slot */
};

/*
 * One pass of the draft layer (spec parallelism 4.2, 4.3): row i takes source row source_rows[i] at its
 * position and, as its token id, the token at the position after it.
 */
struct draft_plan {
    const struct step_segment *segments;
    int32_t segment_count;
    enum draft_source source;
    const int32_t *source_rows; /* [rows] */
    bool writes_state_only;     /* catch-up (M-12): the draft layer's state rows, no logits */
};

#endif
