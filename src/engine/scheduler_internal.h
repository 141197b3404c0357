/* What the scheduler's files share: its lists, its memory, and the plans under way and under construction. */
#ifndef SLUICE_ENGINE_SCHEDULER_INTERNAL_H
#define SLUICE_ENGINE_SCHEDULER_INTERNAL_H

#include "engine/scheduler.h"

/* What a plan changes in the state first. */
struct plan_changes {
    struct step_page_update *page_updates;
    int32_t page_update_count;
    struct step_slot_operation *slot_operations;
    int32_t slot_operation_count;
};

/* A plan's arrays, sized for the largest plan. Indexed by segment unless it says otherwise. */
struct plan_arrays {
    int32_t group;
    struct step_segment *steps;
    struct round_segment *segments;
    struct sequence **sequences;
    int32_t segment_count;
    struct step_snapshot *snapshots; /* in order of segments */
    int32_t snapshot_count;
    int32_t *row_tokens; /* [row_limit]: ids of verify rows; prompts are borrowed from their sequences */
    int32_t row_count;
    int32_t *logit_rows; /* [row_limit] */
    int32_t logit_row_count;
    struct draft_candidate *candidates; /* sampled segments, in order */
    int32_t *drafts;                    /* [candidates] */
    int32_t *verified;                  /* [candidates] */
    int32_t *accepted;                  /* [candidates] */
    int32_t candidate_count;
    struct draft_tick tick;
    bool is_shared; /* its parts of prompts are in the prefix cache, as far as they belong there */
};

struct scheduler {
    struct scheduler_options options;
    struct sequence_list running; /* in order of priority, then arrival */
    struct sequence_list waiting; /* the same */
    struct sequence **slots;      /* [slot_count]; NULL: free */
    uint32_t *generations;        /* [slot_count]: sequences that have had the slot */
    int64_t arrivals;
    struct plan_arrays *plans; /* [in_flight_limit]: a ring */
    int32_t oldest_plan;
    int32_t plan_count;          /* under way */
    struct plan_arrays *plan;    /* under construction */
    struct plan_changes pending; /* for the next plan to make */
    struct plan_changes given;   /* of the last plan */
    struct round_start *starts;  /* [slot_count], of the plan under construction or the last one */
    int32_t start_count;
    token_mask_word *masks;            /* [rows with logits][words of a mask]; the same */
    const token_mask_word **row_masks; /* [rows with logits]; the same */
    bool has_masks;
    bool *is_group_busy;    /* [group_count]: a tick under way chooses its tokens */
    int32_t next_group;     /* whose turn it is */
    int32_t uneven_plans;   /* whose group a move would have made more even, since the last move */
    bool is_store_busy;     /* with the beginning of a sequence that waits, or of one that has ended */
    int32_t *matched_pages; /* [pages of a context] scratch: pages found, or a sequence's before it shared
                               them */
    struct scheduler_gauges gauges;
};

/* Puts a sequence into a list in its order. */
void scheduler_list(struct sequence_list *list, struct sequence *sequence);

/* Appends a slot operation to the next plan. */
void scheduler_add_slot_operation(struct scheduler *scheduler, enum step_slot_action action, int32_t from,
                                  int32_t to);

/* Appends a page update to the next plan. */
void scheduler_add_page_update(struct scheduler *scheduler, int32_t slot, int32_t index, int32_t page);

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

/* Has the store go on with what it brings in. */
void scheduler_go_on_with_store(struct scheduler *scheduler);

/* Lets waiting sequences in while slots, pages and rows last, and plans their first rows. */
void scheduler_admit(struct scheduler *scheduler);

/* Takes the memory of a running sequence away; it reads its tokens again when there is room. */
void scheduler_preempt(struct scheduler *scheduler, struct sequence *sequence);

/* Plans rows of a running sequence that reads its prompt, as many as fit; false if none do. */
bool scheduler_plan_prompt(struct scheduler *scheduler, struct sequence *sequence);

/* End of the next part of a prompt: where a snapshot is wanted, or the last. */
int32_t scheduler_next_boundary(const struct scheduler *scheduler, const struct sequence *sequence,
                                int32_t position);

/*
 * Shares the pages before the snapshots that lie inside the steps of the plan under construction, and says
 * where these go. When all else is planned: nothing in the plan may start from them.
 */
void scheduler_place_snapshots(struct scheduler *scheduler);

/* Shares what a plan's parts of prompts leave, once, before a plan after it changes the state. */
void scheduler_share_prompts(struct scheduler *scheduler, struct plan_arrays *plan);

/* Whether the group may have another sequence: it has less than its part of the load (P-27). */
bool scheduler_group_has_room(const struct scheduler *scheduler, int32_t group);

/* Moves a sequence that waits for nothing from the group to a lighter one, if the groups stay uneven. */
void scheduler_even_groups(struct scheduler *scheduler, int32_t group);

/* Whether a sequence is in the middle of what has to end first: no rows of it are planned. */
static inline bool scheduler_is_leaving(const struct sequence *sequence) {
    return sequence->gives_way || sequence->finish_reason != SLUICE_FINISH_NONE;
}

#endif
