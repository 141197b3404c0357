/*
 * Executes step plans: uploads the batch, runs the model, brings the wanted logits back.
 *
 * An executor owns the queue, the step arena and the boundary buffers, all sized at creation by one dry run
 * of the largest step. The boundary of the last step (V4: the residual streams) stays where it is until the
 * next step, so that the draft layer reads it in place. One thread at a time.
 */
#ifndef SLUICE_ENGINE_EXECUTOR_H
#define SLUICE_ENGINE_EXECUTOR_H

#include "backends/backend_registry.h"
#include "engine/state_pool.h"
#include "engine/step_plan.h"
#include "model/model.h"

struct executor;

struct executor_options {
    const struct model *model; /* bound; borrowed */
    const struct backend *backend;
    struct device *device;     /* borrowed */
    struct stream *stream;     /* borrowed */
    struct worker_pool *pool;  /* borrowed */
    struct state_pool *states; /* borrowed; described, and allocated before a step runs */
    enum numerics numerics;
    const char *cpu_features; /* as struct backend's build_table takes it */
    int32_t row_limit;        /* rows of a step */
    int32_t segment_limit;    /* segments of a step */
    int32_t logit_row_limit;  /* rows of logits computed at once; more are done in turns */
};

enum status executor_create(const struct executor_options *options, struct executor **out);

/* Frees and nulls; NULL inside is allowed. */
void executor_destroy(struct executor **executor);

/* Device memory of a step, boundary buffers included. */
size_t executor_step_bytes(const struct executor *executor);

/*
 * Carries out what the plan asks of the state, then runs it through all layers. logits: host
 * (logit_row_count, vocabulary). NOT_FINITE names the first layer and position whose output is not finite.
 */
enum status executor_run(struct executor *executor, const struct step_plan *plan, float *logits);

/*
 * Runs the draft layer over the rows of the step that ran last: the same plan, with the token that follows
 * each row in place of its own. The model's draft_limit must be above 0.
 */
enum status executor_run_draft(struct executor *executor, const struct step_plan *plan, float *logits);

#endif
