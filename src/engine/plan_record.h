/*
 * Plans as bytes: what the rank that plans sends to all others (spec parallelism 2.3, A.2).
 *
 * A record is a head (magic, version, what it asks for, a running number, sizes) and the plan's arrays.
 * Whoever reads one checks all of that: a record of another version, out of turn or of other sizes is
 * refused, not run. Masks, and the tokens and logit biases of sequences that start, are not in it: only the
 * rank that chooses tokens gets these, behind the record.
 */
#ifndef SLUICE_ENGINE_PLAN_RECORD_H
#define SLUICE_ENGINE_PLAN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/prefix_order.h"
#include "engine/round_plan.h"

enum plan_kind {
    PLAN_KIND_STEP = 1,     /* a step whose logits go to the leader */
    PLAN_KIND_DRAFT,        /* a pass of the draft layer */
    PLAN_KIND_HEAD,         /* a step plan's logits, of the step before */
    PLAN_KIND_CHANGE_STATE, /* a step plan's changes of the state, at once and alone */
    PLAN_KIND_ROUND,
    PLAN_KIND_PASSES_END,  /* neither drafts nor logits are asked for any more in this round */
    PLAN_KIND_PREFIX_FIND, /* what follows is about prefixes on disk (engine/prefix_order.h) */
    PLAN_KIND_PREFIX_LOAD,
    PLAN_KIND_PREFIX_RESTORE, /* after the step plan's changes of the state, as the next */
    PLAN_KIND_PREFIX_KEEP,
    PLAN_KIND_REPORT, /* every rank says what it has done so far */
    PLAN_KIND_REST,   /* the same, and nothing is under way until the next record */
    PLAN_KIND_TRACE,  /* every rank sends its timeline */
    PLAN_KIND_END,    /* nothing follows */
};

/* Sizes that plans of an engine never exceed. */
struct plan_bounds {
    int32_t row_limit;
    int32_t logit_row_limit;
    int32_t segment_limit; /* and slots of sequences */
    int32_t page_update_limit;
    int32_t slot_operation_limit;
    int32_t token_limit; /* of a sequence, */
    int32_t page_limit;  /* and its pages */
};

/* What is asked for; of a kind that has no plan the plans are empty. */
struct plan_record {
    enum plan_kind kind;
    struct step_plan step; /* of a step, or of changes of the state */
    struct prefix_order prefix;
    struct draft_plan draft;
    struct round_plan
        round; /* in a record that was read: without masks, and starts without tokens and biases */
    const int32_t *mask_flags; /* [round.step.logit_row_count] that was read: not 0 if the row has a mask */
    int32_t mask_count;
};

/* Room for the structs that a record is read into. */
struct plan_room {
    struct step_segment *segments;
    struct round_segment *round_segments;
    struct round_start *starts;
    struct sequence_rules *rules; /* of the starts */
};

/* Owned: plan_room_deinit, also after an error. */
enum status plan_room_init(struct plan_room *room, const struct plan_bounds *bounds);
void plan_room_deinit(struct plan_room *room);

/* Bytes of the largest record. */
size_t plan_record_bytes_max(const struct plan_bounds *bounds);

/*
 * Writes a record of at most plan_record_bytes_max and returns its size; `number` counts records from 0.
 * `memory` is aligned to 8 bytes.
 */
size_t plan_record_write(const struct plan_record *record, uint64_t number, void *memory);

/*
 * Reads a record whose plans point into `memory` (aligned to 8 bytes) and into the room. INTERNAL says what
 * does not fit.
 */
enum status plan_record_read(const void *memory, size_t bytes, uint64_t number,
                             const struct plan_bounds *bounds, const struct plan_room *room,
                             struct plan_record *out);

#endif
