/* What an executor is asked to do, alone or as one of several ranks: the leader asks, the others follow. */
#include "base/clock.h"
#include "engine/batch_upload.h"
#include "engine/executor_internal.h"

static enum status check_snapshots(const struct executor *executor, const struct step_plan *plan) {
    const struct state_pool_options *pool = &executor->options.states->options;
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        int32_t slot = plan->snapshots[i].slot;
        CHECK(slot >= pool->sequence_slot_count &&
                  slot < pool->sequence_slot_count + pool->snapshot_slot_count,
              STATUS_INTERNAL, "a snapshot goes to slot %d, expected one of %d from %d on", slot,
              pool->snapshot_slot_count, pool->sequence_slot_count);
    }
    return STATUS_OK;
}

static enum status check_plan(const struct executor *executor, const struct step_plan *plan) {
    int64_t rows = step_plan_row_count(plan);
    CHECK(rows >= 1 || executor_shares_experts(executor), STATUS_INTERNAL, "a step without rows was planned");
    CHECK(rows <= executor->options.row_limit && plan->segment_count <= executor->options.segment_limit,
          STATUS_INTERNAL, "a step of %lld rows in %d segments exceeds the planned %d rows in %d segments",
          (long long)rows, plan->segment_count, executor->options.row_limit, executor->options.segment_limit);
    return check_snapshots(executor, plan);
}

static enum status run_slot_operation(struct executor *executor,
                                      const struct step_slot_operation *operation) {
    struct state_pool *states = executor->options.states;
    switch (operation->action) {
    case STEP_SLOT_COPY:
        return state_pool_copy_slot(states, executor->queue.stream, operation->from, operation->to);
    case STEP_SLOT_SAVE_ROW:
        return executor_drafts(executor) ? executor_copy_saved_row(executor, operation->from, operation->to)
                                         : STATUS_OK;
    case STEP_SLOT_CLEAR_DRAFT:
        return state_pool_clear_draft_rings(states, executor->queue.stream, operation->to);
    }
    FAIL(STATUS_INTERNAL, "slot operation %d is unknown", (int)operation->action);
}

enum status executor_change_own_state(struct executor *executor, const struct step_plan *plan) {
    TRY(state_pool_update_pages(executor->options.states, executor->queue.stream, plan->page_updates,
                                plan->page_update_count));
    for (int32_t i = 0; i < plan->slot_operation_count; i++) {
        TRY(run_slot_operation(executor, &plan->slot_operations[i]));
    }
    return STATUS_OK;
}

/*
 * The step's buffer is free, and so is that of the step behind it, whose boundary may come in while this one
 * is computed (P-20, P-21).
 */
static enum status prepare_buffers(struct executor *executor) {
    double began = clock_seconds();
    executor->buffer = executor_next_buffer(executor);
    int free_buffer = executor->buffer;
    if (!executor_is_on_first_stage(executor)) {
        if (executor->receives[executor->buffer][0].state == NULL) { /* the first step */
            TRY(executor_await_boundary(executor, executor->buffer));
        }
        free_buffer = executor_next_buffer(executor);
    }
    TRY(executor_wait_for_buffer(executor, free_buffer));
    if (!executor_is_on_last_stage(executor)) {
        rank_meter_add_wait(&executor->meter, began);
        tick_trace_add(executor_trace(executor), TRACE_SEND_WAIT, began);
    }
    return executor_is_on_first_stage(executor) ? STATUS_OK : executor_await_boundary(executor, free_buffer);
}

enum status executor_step(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(check_plan(executor, plan));
    TRY(executor_change_own_state(executor, plan));
    executor->step_rows = 0;
    executor->step_number++;
    double began = clock_seconds();
    double waited_before = executor->meter.wait_seconds;
    TRY(prepare_buffers(executor));
    TRY(executor_run_pass(executor, &(struct pass){.plan = plan, .logits = logits}));
    executor->step_rows = step_plan_row_count(plan);
    executor->step_seconds = clock_seconds() - began - (executor->meter.wait_seconds - waited_before);
    return STATUS_OK;
}

double executor_step_seconds(const struct executor *executor) {
    return executor->step_seconds;
}

static enum status run_step(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(executor_step(executor, plan, logits));
    return executor_pass_logits(executor, plan->logit_row_count, logits);
}

enum status executor_change_state(struct executor *executor, const struct step_plan *plan) {
    TRY(executor_lead(executor, &(struct plan_record){.kind = PLAN_KIND_CHANGE_STATE, .step = *plan}));
    return executor_change_own_state(executor, plan);
}

enum status executor_run(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(check_plan(executor, plan));
    TRY(executor_lead(executor, &(struct plan_record){.kind = PLAN_KIND_STEP, .step = *plan}));
    return run_step(executor, plan, logits);
}

enum status executor_obey(struct executor *executor, const struct plan_record *record) {
    switch (record->kind) {
    case PLAN_KIND_STEP:
        return run_step(executor, &record->step, executor->logits);
    case PLAN_KIND_CHANGE_STATE:
        return executor_change_own_state(executor, &record->step);
    case PLAN_KIND_PREFIX_FIND:
    case PLAN_KIND_PREFIX_LOAD:
    case PLAN_KIND_PREFIX_RESTORE:
    case PLAN_KIND_PREFIX_KEEP:
        return executor_follow_prefixes(executor, record);
    case PLAN_KIND_REST:
        rank_meter_rest(&executor->meter);
        return executor_send_report(executor);
    case PLAN_KIND_REPORT:
        return executor_send_report(executor);
    case PLAN_KIND_TRACE:
        return executor_send_trace(executor);
    case PLAN_KIND_DRAFT:
    case PLAN_KIND_HEAD:
    case PLAN_KIND_ROUND:
    case PLAN_KIND_PASSES_END:
    case PLAN_KIND_END:
        break;
    }
    FAIL(STATUS_INTERNAL, "a record of kind %d came in where steps are run", (int)record->kind);
}
