/*
 * A step plan as device arrays: host staging, one copy, a view.
 */
#ifndef SLUICE_ENGINE_BATCH_UPLOAD_H
#define SLUICE_ENGINE_BATCH_UPLOAD_H

#include "engine/step_plan.h"
#include "ops/batch_view.h"
#include "ops/device_arena.h"

/* Integers that a step of that size needs. */
size_t batch_upload_count(int64_t row_count, int64_t segment_count);

/* Rows of all segments. */
int64_t step_plan_row_count(const struct step_plan *plan);

/*
 * Fills `staging` (batch_upload_count integers) from the plan and copies it to memory of the arena. `stream`
 * NULL (a dry run): memory and counts only. `staging` must live until the stream has run the copy.
 */
enum status batch_upload(const struct step_plan *plan, int32_t *staging, struct stream *stream,
                         struct device_arena *arena, struct batch_view *out);

#endif
