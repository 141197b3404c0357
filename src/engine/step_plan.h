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

enum step_slot_action {
    STEP_SLOT_COPY,        /* all rows that are kept by slot (rings): of slot `from` to slot `to` */
    STEP_SLOT_SAVE_ROW,    /* the boundary row that is kept for slot `from`, to that of slot `to` */
    STEP_SLOT_CLEAR_DRAFT, /* the draft layer's rings of slot `to`: zeros, so that it sees nobody else's rows
                            */
};

struct step_slot_operation {
    enum step_slot_action action;
    int32_t from;
    int32_t to;
};

/*
 * What the rings of a segment's slot hold after its first `row_count` rows is kept in slot `slot`, a
 * snapshot's; rows of the segment after them change nothing of that. In a round so is the boundary row of the
 * last of them, where the draft layer works for the segment.
 */
struct step_snapshot {
    int32_t segment;
    int32_t row_count;
    int32_t slot;
};

/*
 * In order: page updates, slot operations as they are listed, the layers with snapshots inside the step, the
 * wanted logits.
 */
struct step_plan {
    const struct step_segment *segments;
    int32_t segment_count;
    const int32_t *logit_rows; /* rows of the step, counted over all segments, whose logits are wanted */
    int32_t logit_row_count;
    const struct step_page_update *page_updates;
    int32_t page_update_count;
    const struct step_slot_operation *slot_operations;
    int32_t slot_operation_count;
    const struct step_snapshot *snapshots; /* at most one of each segment */
    int32_t snapshot_count;
};

/* Where a draft pass finds the streams of the rows it goes on from. */
enum draft_source {
    DRAFT_SOURCE_STEP,  /* the boundary that the last step left */
    DRAFT_SOURCE_DRAFT, /* what the last draft pass that wanted logits left */
    DRAFT_SOURCE_SAVED, /* rows kept by slot */
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
    const struct step_snapshot *snapshots;
    int32_t snapshot_count;
};

#endif
