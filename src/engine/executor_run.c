/* What an executor is asked to do, alone or as one of several ranks: the leader asks, the others follow. */
#include "engine/batch_upload.h"
#include "engine/executor_internal.h"

static enum status check_plan(const struct executor *executor, const struct step_plan *plan) {
    int64_t rows = step_plan_row_count(plan);
    CHECK(rows >= 1, STATUS_INTERNAL, "a step without rows was planned");
    CHECK(rows <= executor->options.row_limit && plan->segment_count <= executor->options.segment_limit,
          STATUS_INTERNAL, "a step of %lld rows in %d segments exceeds the planned %d rows in %d segments",
          (long long)rows, plan->segment_count, executor->options.row_limit, executor->options.segment_limit);
    return STATUS_OK;
}

static enum status run_slot_operation(struct executor *executor,
                                      const struct step_slot_operation *operation) {
    struct state_pool *states = executor->options.states;
    switch (operation->action) {
    case STEP_SLOT_COPY:
        return state_pool_copy_slot(states, executor->queue.stream, operation->from, operation->to);
    case STEP_SLOT_SAVE_ROW:
        return executor_drafts(executor)
                   ? executor_save_row(executor, operation->from,
                                       operation->to - states->options.sequence_slot_count)
                   : STATUS_OK;
    case STEP_SLOT_CLEAR_DRAFT:
        return state_pool_clear_draft_rings(states, executor->queue.stream, operation->to);
    }
    FAIL(STATUS_INTERNAL, "slot operation %d is unknown", (int)operation->action);
}

static enum status change_state(struct executor *executor, const struct step_plan *plan) {
    TRY(state_pool_update_pages(executor->options.states, executor->queue.stream, plan->page_updates,
                                plan->page_update_count));
    for (int32_t i = 0; i < plan->slot_operation_count; i++) {
        TRY(run_slot_operation(executor, &plan->slot_operations[i]));
    }
    return STATUS_OK;
}

static enum status run_step(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(change_state(executor, plan));
    executor->step_rows = 0;
    TRY(executor_run_pass(executor, &(struct pass){.plan = plan, .logits = logits}));
    TRY(executor_pass_logits(executor, plan->logit_row_count, logits));
    executor->step_rows = step_plan_row_count(plan);
    return STATUS_OK;
}

static enum status run_head(struct executor *executor, const struct step_plan *plan, float *logits) {
    if (executor_is_on_last_stage(executor)) {
        TRY(executor_run_pass(executor,
                              &(struct pass){.plan = plan, .is_head_only = true, .logits = logits}));
    }
    return executor_pass_logits(executor, plan->logit_row_count, logits);
}

static enum status run_draft(struct executor *executor, const struct draft_plan *plan, float *logits) {
    struct step_plan batch = {.segments = plan->segments, .segment_count = plan->segment_count};
    int64_t rows = step_plan_row_count(&batch);
    if (executor_drafts(executor)) {
        TRY(executor_run_pass(executor, &(struct pass){.plan = &batch, .draft = plan, .logits = logits}));
        if (!plan->writes_state_only) {
            executor->last_drafted = 1 - executor->last_drafted;
            executor->drafted_rows = rows;
        }
    }
    return executor_pass_logits(executor, plan->writes_state_only ? 0 : rows, logits);
}

/* Makes the other ranks do the same. */
static enum status lead(struct executor *executor, enum plan_kind kind, const struct step_plan *step,
                        const struct draft_plan *draft) {
    struct executor_ranks *ranks = executor->options.ranks;
    if (ranks == NULL) {
        return STATUS_OK;
    }
    uint64_t bytes = plan_record_write(kind, executor->record_number, step, draft, executor->record);
    TRY(comm_broadcast_host(ranks->control, 0, &bytes, sizeof bytes));
    TRY(comm_broadcast_host(ranks->control, 0, executor->record, bytes));
    executor_ranks_begin_tick(ranks, executor->record_number++);
    return STATUS_OK;
}

/* All ranks learn whether one has failed. */
static enum status settle(struct executor *executor, enum status status) {
    if (executor->options.ranks == NULL) {
        return status;
    }
    enum status worst = comm_agree(executor->options.ranks->control, status);
    CHECK(status != STATUS_OK || worst == STATUS_OK, worst, "another rank failed in this step: %s",
          status_text(worst));
    return worst;
}

enum status executor_change_state(struct executor *executor, const struct step_plan *plan) {
    TRY(lead(executor, PLAN_KIND_CHANGE_STATE, plan, NULL));
    return settle(executor, change_state(executor, plan));
}

enum status executor_run(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(check_plan(executor, plan));
    TRY(lead(executor, PLAN_KIND_STEP, plan, NULL));
    return settle(executor, run_step(executor, plan, logits));
}

enum status executor_run_head(struct executor *executor, const int32_t *rows, int32_t count, float *logits) {
    struct step_plan plan = {.logit_rows = rows, .logit_row_count = count};
    for (int32_t i = 0; i < count; i++) {
        CHECK(rows[i] >= 0 && rows[i] < executor->step_rows, STATUS_INTERNAL,
              "logits of row %d of the last step were asked for, which has %lld rows", rows[i],
              (long long)executor->step_rows);
    }
    TRY(lead(executor, PLAN_KIND_HEAD, &plan, NULL));
    return settle(executor, run_head(executor, &plan, logits));
}

static enum status check_draft_plan(const struct executor *executor, const struct draft_plan *plan,
                                    int64_t rows) {
    static const char *const names[] = {[DRAFT_SOURCE_STEP] = "the last step",
                                        [DRAFT_SOURCE_DRAFT] = "the last draft pass",
                                        [DRAFT_SOURCE_SAVED] = "the saved rows"};
    CHECK(executor->options.model->draft_limit > 0, STATUS_INTERNAL, "drafting is off");
    CHECK(plan->writes_state_only || rows <= executor_draft_row_limit(executor), STATUS_INTERNAL,
          "a draft pass of %lld rows exceeds the planned %d", (long long)rows,
          executor_draft_row_limit(executor));
    if (!executor_drafts(executor)) {
        return STATUS_OK; /* the last stage's rows are not known here */
    }
    struct draft_origin origin;
    executor_find_origin(executor, plan->source, &origin);
    for (int64_t i = 0; i < rows; i++) {
        CHECK(plan->source_rows[i] >= 0 && plan->source_rows[i] < origin.rows, STATUS_INTERNAL,
              "row %lld of a draft pass goes on from row %d of %s, which has %lld rows", (long long)i,
              plan->source_rows[i], names[plan->source], (long long)origin.rows);
    }
    return STATUS_OK;
}

enum status executor_run_draft(struct executor *executor, const struct draft_plan *plan, float *logits) {
    struct step_plan batch = {.segments = plan->segments, .segment_count = plan->segment_count};
    int64_t rows = step_plan_row_count(&batch);
    TRY(check_plan(executor, &batch));
    TRY(check_draft_plan(executor, plan, rows));
    TRY(lead(executor, PLAN_KIND_DRAFT, NULL, plan));
    TRY(settle(executor, run_draft(executor, plan, logits)));
    int64_t count = plan->writes_state_only ? 0 : rows * executor->options.model->vocabulary_size;
    CHECK(executor_first_not_finite(logits, count) < 0, STATUS_NOT_FINITE,
          "the MTP layer gave a logit that is not finite: check the files with `sluice inspect --verify`");
    return STATUS_OK;
}

enum status executor_end_followers(struct executor *executor) {
    return lead(executor, PLAN_KIND_END, NULL, NULL);
}

/* Receives the next record. */
static enum status receive(struct executor *executor, struct plan_record *record) {
    struct executor_ranks *ranks = executor->options.ranks;
    uint64_t bytes = 0;
    TRY(comm_broadcast_host(ranks->control, 0, &bytes, sizeof bytes));
    CHECK(bytes <= executor->record_bytes, STATUS_INTERNAL, "a plan of %llu bytes came in, at most %zu fit",
          (unsigned long long)bytes, executor->record_bytes);
    TRY(comm_broadcast_host(ranks->control, 0, executor->record, bytes));
    executor_ranks_begin_tick(ranks, executor->record_number);
    return plan_record_read(executor->record, bytes, executor->record_number++, &ranks->bounds,
                            executor->segments, record);
}

static enum status obey(struct executor *executor, const struct plan_record *record) {
    switch (record->kind) {
    case PLAN_KIND_STEP:
        return run_step(executor, &record->step, executor->logits);
    case PLAN_KIND_HEAD:
        return run_head(executor, &record->step, executor->logits);
    case PLAN_KIND_DRAFT:
        return run_draft(executor, &record->draft, executor->logits);
    case PLAN_KIND_CHANGE_STATE:
        return change_state(executor, &record->step);
    case PLAN_KIND_END:
        break;
    }
    return STATUS_OK;
}

enum status executor_follow(struct executor *executor) {
    struct plan_record record = {.kind = PLAN_KIND_STEP};
    while (record.kind != PLAN_KIND_END) {
        TRY(receive(executor, &record));
        if (record.kind != PLAN_KIND_END) {
            TRY(settle(executor, obey(executor, &record)));
        }
    }
    return STATUS_OK;
}
