/* Step memory of a model, by a dry run of its forward functions without weights. */
#ifndef SLUICE_TOOLS_PLAN_STEP_H
#define SLUICE_TOOLS_PLAN_STEP_H

#include "ops/numerics.h"
#include "tools/plan_model.h"

/* Sizes of the largest step. */
struct plan_step_shape {
    enum numerics numerics;
    int32_t row_limit;
    int32_t segment_limit;
    int64_t context_tokens;
    int64_t page_tokens;
    unsigned thread_count;
};

/* Bytes that each part of a step needs at once, besides boundaries; a stage needs the largest of its parts.
 */
struct plan_step_bytes {
    uint64_t batch; /* of any part: integers of the step */
    uint64_t embedding;
    uint64_t layers;
    uint64_t head;
    uint64_t draft; /* 0 when drafting is off */
};

/*
 * Runs the model dry with the kernels of the cpu backend on this machine; binds it to placeholders, so that
 * it can run in no other way afterwards. Weights are whole: where tensor parallelism cuts them a rank needs
 * less.
 */
enum status plan_step_measure(const struct plan_model *model, const struct plan_step_shape *shape,
                              struct plan_step_bytes *out);

#endif
