/* How a plan record lies in memory. */
#ifndef SLUICE_ENGINE_PLAN_RECORD_LAYOUT_H
#define SLUICE_ENGINE_PLAN_RECORD_LAYOUT_H

#include "engine/plan_record.h"

enum { PLAN_MAGIC = 0x534c4350, PLAN_VERSION = 5, SEGMENT_WORDS = 3, ROUND_SEGMENT_WORDS = 11 };

struct plan_head {
    uint32_t magic;
    uint32_t version;
    uint64_t number;
    int32_t kind;
    int32_t draft_source;
    int32_t writes_state_only;
    int32_t regime;
    int32_t group;
    int32_t start_count;
    int32_t segment_count;
    int32_t round_segment_count;
    int32_t row_count;
    int32_t logit_row_count;
    int32_t mask_flag_count; /* as many as rows of logits, or 0 */
    int32_t source_row_count;
    int32_t page_update_count;
    int32_t slot_operation_count;
    int32_t joint_draft_passes;
    int32_t snapshot_count;
    int32_t prefix_token_count;
    int32_t prefix_first_page;
    int32_t prefix_page_count;
    int32_t prefix_snapshot_slot;
    int32_t prefix_has_snapshot;
    int32_t prefix_has_draft_rows;
};

struct start_words {
    struct sluice_sampling sampling; /* without its pointer */
    int32_t slot;
    uint32_t generation;
    uint32_t choice_index;
    int32_t log_probability_count;
    int32_t prompt_log_probability_count;
    int32_t prompt_count;
    int32_t token_count;
    int32_t unused;
};

_Static_assert(sizeof(struct plan_head) % 8 == 0, "starts are aligned");
_Static_assert(sizeof(struct start_words) % 8 == 0, "starts are aligned");

/* Of all that lies behind the head. */
size_t plan_record_body_bytes(const struct plan_head *head);

#endif
