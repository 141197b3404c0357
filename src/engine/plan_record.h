/*
 * Step plans and draft plans as bytes: what the rank that plans sends to all others (spec parallelism 2.3).
 *
 * A record is a head (magic, version, what it asks for, a running number, sizes) and the plan's arrays.
 * Whoever reads one checks all of that: a record of another version, out of turn or of other sizes is
 * refused, not run.
 */
#ifndef SLUICE_ENGINE_PLAN_RECORD_H
#define SLUICE_ENGINE_PLAN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/step_plan.h"

enum plan_kind {
    PLAN_KIND_STEP = 1,
    PLAN_KIND_DRAFT,
    PLAN_KIND_HEAD,         /* a step plan's logits, of the step before */
    PLAN_KIND_CHANGE_STATE, /* a step plan's changes of the state, at once and alone */
    PLAN_KIND_END,          /* nothing follows */
};

/* Sizes that plans of an engine never exceed. */
struct plan_bounds {
    int32_t row_limit;
    int32_t logit_row_limit;
    int32_t segment_limit;
    int32_t page_update_limit;
    int32_t slot_operation_limit;
};

/* Of either kind; `step` also holds the segments of a draft plan while it is read. */
struct plan_record {
    enum plan_kind kind;
    struct step_plan step;
    struct draft_plan draft;
};

/* Bytes of the largest record. */
size_t plan_record_bytes_max(const struct plan_bounds *bounds);

/*
 * Writes a record of at most plan_record_bytes_max and returns its size; `number` counts records from 0.
 * `step` is NULL for a draft plan, `draft` for the others; both for PLAN_KIND_END.
 */
size_t plan_record_write(enum plan_kind kind, uint64_t number, const struct step_plan *step,
                         const struct draft_plan *draft, void *memory);

/*
 * Reads a record whose plans point into `memory` (aligned to 8 bytes). INTERNAL says what does not fit.
 * `segments` has room for bounds->segment_limit.
 */
enum status plan_record_read(const void *memory, size_t bytes, uint64_t number,
                             const struct plan_bounds *bounds, struct step_segment *segments,
                             struct plan_record *out);

#endif
