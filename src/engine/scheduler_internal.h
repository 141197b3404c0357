/* What the scheduler's files share: its lists, its memory, and the plan under construction. */
#ifndef SLUICE_ENGINE_SCHEDULER_INTERNAL_H
#define SLUICE_ENGINE_SCHEDULER_INTERNAL_H

#include "engine/scheduler.h"

/* The plan's arrays, sized for the largest plan. Indexed by segment unless it says otherwise. */
struct plan_arrays {
    struct step_segment *steps;
    struct round_segment *segments;
    struct sequence **sequences;
    int32_t segment_count;
    int32_t *row_tokens; /* [row_limit]: ids of verify rows; prompts are borrowed from their sequences */
    int32_t row_count;
    int32_t *logit_rows; /* [row_limit] */
    int32_t logit_row_count;
    struct step_page_update *page_updates;
    int32_t page_update_count;
    struct step_slot_operation *slot_operations;
    int32_t slot_operation_count;
    struct draft_candidate *candidates; /* sampled segments, in order */
    int32_t *drafts;                    /* [candidates] */
    int32_t *verified;                  /* [candidates] */
    int32_t *accepted;                  /* [candidates] */
    int32_t candidate_count;
    struct draft_tick tick;
};

struct scheduler {
    struct scheduler_options options;
    struct sequence_list running; /* in order of priority, then arrival */
    struct sequence_list waiting; /* the same */
    struct sequence **slots;      /* [slot_count]; NULL: free */
    int64_t arrivals;
    struct plan_arrays plan;
    int32_t
        *matched_pages; /* [pages of a context] scratch: pages found, or a sequence's before it shared them */
    struct scheduler_gauges gauges;
};

/* Puts a sequence into a list in its order. */
void scheduler_list(struct sequence_list *list, struct sequence *sequence);

/* Appends a slot operation to the next plan. */
void scheduler_add_slot_operation(struct scheduler *scheduler, enum step_slot_action action, int32_t from,
                                  int32_t to);

/* What the next plan will change in the state first, so far. */
struct step_plan scheduler_pending_changes(const struct scheduler *scheduler);

/* Somebody has carried the pending changes out. */
void scheduler_forget_changes(struct scheduler *scheduler);

/* Takes pages for the sequence's first `positions` positions; false if there are not enough. */
bool scheduler_reserve_pages(struct scheduler *scheduler, struct sequence *sequence, int32_t positions);

/* Gives a running sequence's pages and slot back and takes it out of its list. */
void scheduler_take_off(struct scheduler *scheduler, struct sequence *sequence);

/* Takes a sequence whose end was decided out of its list and hands it back to the engine. */
void scheduler_end(struct scheduler *scheduler, struct sequence *sequence);

/* Lets waiting sequences in while slots, pages and rows last, and plans their first rows. */
void scheduler_admit(struct scheduler *scheduler);

/* Takes the memory of a running sequence away; it reads its tokens again when there is room. */
void scheduler_preempt(struct scheduler *scheduler, struct sequence *sequence);

/* Plans rows of a running sequence that reads its prompt, as many as fit; false if none do. */
bool scheduler_plan_prompt(struct scheduler *scheduler, struct sequence *sequence);

/* End of the next part of a prompt that has to end a step, for a snapshot or because it is the last. */
int32_t scheduler_next_boundary(const struct scheduler *scheduler, const struct sequence *sequence,
                                int32_t position);

#endif
