/* Step memory of a model, by a dry run of its forward functions without weights. */
#ifndef SLUICE_TOOLS_PLAN_STEP_H
#define SLUICE_TOOLS_PLAN_STEP_H

#include "tools/plan_model.h"

struct plan_request;

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
 * Runs the model dry with the kernels of the cpu backend on this machine, as the first rank of each group of
 * the request's mesh, whose share of rows is never smaller than another's; binds it to placeholders, so that
 * it can run in no other way afterwards. With one rank weights are whole, and so what is measured is an upper
 * limit of every layout.
 */
enum status plan_step_measure(const struct plan_model *model, const struct plan_request *request,
                              struct plan_step_bytes *out);

#endif
