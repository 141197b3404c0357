/*
 * What comes after a step's layers, on all ranks of the last stage: more rows of the head, passes of the
 * draft layer. The rank that chooses tokens leads.
 */
#include "base/clock.h"
#include "engine/batch_upload.h"
#include "engine/executor_internal.h"

/* A record to the other ranks of the stage, which are waiting for it or will be. */
static enum status lead_stage(struct executor *executor, const struct plan_record *record) {
    const struct executor_ranks *ranks = executor->options.ranks;
    if (ranks == NULL || comm_size(ranks->step.tensor) == 1) {
        return STATUS_OK;
    }
    uint64_t bytes = plan_record_write(record, executor->pass_number++, executor->pass_record);
    TRY(comm_broadcast_host(ranks->step.tensor, 0, &bytes, sizeof bytes));
    return comm_broadcast_host(ranks->step.tensor, 0, executor->pass_record, bytes);
}

static enum status run_draft(struct executor *executor, const struct draft_plan *plan, float *logits) {
    struct step_plan batch = {.segments = plan->segments,
                              .segment_count = plan->segment_count,
                              .snapshots = plan->snapshots,
                              .snapshot_count = plan->snapshot_count};
    TRY(executor_run_pass(executor, &(struct pass){.plan = &batch, .draft = plan, .logits = logits}));
    if (!plan->writes_state_only) {
        executor->last_drafted = 1 - executor->last_drafted;
        executor->drafted_rows = step_plan_row_count(&batch);
    }
    return STATUS_OK;
}

static enum status run_head(struct executor *executor, const struct step_plan *plan, float *logits) {
    return executor_run_pass(executor, &(struct pass){.plan = plan, .is_head_only = true, .logits = logits});
}

enum status executor_run_head(struct executor *executor, const int32_t *rows, int32_t count, float *logits) {
    struct step_plan plan = {.logit_rows = rows, .logit_row_count = count};
    for (int32_t i = 0; i < count; i++) {
        CHECK(rows[i] >= 0 && rows[i] < executor->step_rows, STATUS_INTERNAL,
              "logits of row %d of the last step were asked for, which has %lld rows", rows[i],
              (long long)executor->step_rows);
    }
    TRY(lead_stage(executor, &(struct plan_record){.kind = PLAN_KIND_HEAD, .step = plan}));
    return run_head(executor, &plan, logits);
}

static enum status check_source_rows(const struct executor *executor, const struct draft_plan *plan,
                                     int64_t rows) {
    static const char *const names[] = {[DRAFT_SOURCE_STEP] = "the last step",
                                        [DRAFT_SOURCE_DRAFT] = "the last draft pass",
                                        [DRAFT_SOURCE_SAVED] = "the saved rows"};
    struct draft_origin origin;
    executor_find_origin(executor, plan->source, &origin);
    for (int64_t i = 0; i < rows; i++) {
        CHECK(plan->source_rows[i] >= 0 && plan->source_rows[i] < origin.rows, STATUS_INTERNAL,
              "row %lld of a draft pass goes on from row %d of %s, which has %lld rows", (long long)i,
              plan->source_rows[i], names[plan->source], (long long)origin.rows);
    }
    return STATUS_OK;
}

static enum status check_draft_plan(const struct executor *executor, const struct draft_plan *plan,
                                    int64_t rows) {
    const struct executor_options *options = &executor->options;
    CHECK(options->model->draft_limit > 0, STATUS_INTERNAL, "drafting is off");
    CHECK(executor_drafts(executor), STATUS_INTERNAL, "drafts were asked of a rank without a draft layer");
    CHECK(rows >= 1 || executor_shares_experts(executor), STATUS_INTERNAL,
          "a draft pass without rows was planned");
    CHECK(rows <= options->row_limit && plan->segment_count <= options->segment_limit, STATUS_INTERNAL,
          "a draft pass of %lld rows in %d segments exceeds the planned %d rows in %d segments",
          (long long)rows, plan->segment_count, options->row_limit, options->segment_limit);
    CHECK(plan->writes_state_only || rows <= executor_draft_row_limit(executor), STATUS_INTERNAL,
          "a draft pass of %lld rows exceeds the planned %d", (long long)rows,
          executor_draft_row_limit(executor));
    return check_source_rows(executor, plan, rows);
}

enum status executor_run_draft(struct executor *executor, const struct draft_plan *plan, float *logits) {
    struct step_plan batch = {.segments = plan->segments, .segment_count = plan->segment_count};
    int64_t rows = step_plan_row_count(&batch);
    TRY(check_draft_plan(executor, plan, rows));
    TRY(lead_stage(executor, &(struct plan_record){.kind = PLAN_KIND_DRAFT, .draft = *plan}));
    TRY(run_draft(executor, plan, logits));
    int64_t count = plan->writes_state_only ? 0 : rows * executor->options.model->vocabulary_size;
    CHECK(executor_first_not_finite(logits, count) < 0, STATUS_NOT_FINITE,
          "the MTP layer gave a logit that is not finite: check the files with `sluice inspect --verify`");
    return STATUS_OK;
}

enum status executor_end_passes(struct executor *executor) {
    return lead_stage(executor, &(struct plan_record){.kind = PLAN_KIND_PASSES_END});
}

enum status executor_follow_passes(struct executor *executor) {
    struct executor_ranks *ranks = executor->options.ranks;
    struct plan_record record;
    for (;;) {
        uint64_t bytes = 0;
        double began = clock_seconds();
        TRY(comm_broadcast_host(ranks->step.tensor, 0, &bytes, sizeof bytes));
        rank_meter_add_wait(&executor->meter, began);
        CHECK(bytes <= executor->record_bytes, STATUS_INTERNAL,
              "a plan of %llu bytes came in, at most %zu fit", (unsigned long long)bytes,
              executor->record_bytes);
        TRY(comm_broadcast_host(ranks->step.tensor, 0, executor->pass_record, bytes));
        TRY(plan_record_read(executor->pass_record, bytes, executor->pass_number++, &ranks->bounds,
                             &executor->pass_room, &record));
        if (record.kind == PLAN_KIND_PASSES_END) {
            return STATUS_OK;
        }
        TRY(record.kind == PLAN_KIND_HEAD ? run_head(executor, &record.step, executor->logits)
                                          : run_draft(executor, &record.draft, executor->logits));
    }
}
