/* Taking a round's results: tokens, ends, and pages that others may share from now on. */
#include <assert.h>
#include <string.h>

#include "engine/scheduler_internal.h"

/* Whether the draft layer's rows before `end` are all there, as far as anyone reads them. */
static bool has_draft_rows(const struct scheduler *scheduler, const struct sequence *sequence, int32_t end) {
    return scheduler->options.draft_limit > 0 &&
           (sequence->draft_gap_end == 0 || end - sequence->draft_gap_end >= scheduler->options.draft_window);
}

/* Pages that were computed twice are given up for the cached ones: the slot's table follows. */
static void follow_pages(struct scheduler *scheduler, const struct sequence *sequence, const int32_t *before,
                         int32_t page_count) {
    struct plan_arrays *plan = &scheduler->plan;
    for (int32_t i = 0; i < page_count; i++) {
        if (sequence->pages[i] != before[i]) {
            plan->page_updates[plan->page_update_count++] =
                (struct step_page_update){.slot = sequence->slot, .index = i, .page = sequence->pages[i]};
        }
    }
}

/* Shares the pages before `end`, where the rings still hold what a sequence starting there needs. */
static void publish(struct scheduler *scheduler, struct sequence *sequence, int32_t end, int32_t last_row) {
    bool has_rows = has_draft_rows(scheduler, sequence, end);
    int32_t page_count = end / scheduler->options.page_tokens;
    int32_t snapshot_slot = -1;
    int32_t *before = scheduler->matched_pages;
    memcpy(before, sequence->pages, (size_t)page_count * sizeof *before);
    enum status status = prefix_cache_publish(scheduler->options.prefixes, sequence->tokens, end,
                                              sequence->pages, has_rows, &snapshot_slot);
    assert(status == STATUS_OK);
    (void)status;
    follow_pages(scheduler, sequence, before, page_count);
    if (snapshot_slot < 0) {
        return;
    }
    scheduler_add_slot_operation(scheduler, STEP_SLOT_COPY, sequence->slot, snapshot_slot);
    if (has_rows) {
        scheduler_add_slot_operation(scheduler, STEP_SLOT_SAVE_ROW, last_row, snapshot_slot);
    }
    const struct scheduler_store *store = &scheduler->options.store;
    if (store->keep != NULL) {
        struct step_plan pending = scheduler_pending_changes(scheduler);
        bool is_carried_out = false;
        store->keep(store->context, sequence->tokens, end, sequence->pages, snapshot_slot, has_rows, &pending,
                    &is_carried_out);
        if (is_carried_out) {
            scheduler_forget_changes(scheduler);
        }
    }
}

static int32_t first_row_of(const struct scheduler *scheduler, int32_t index) {
    int32_t row = 0;
    for (int32_t i = 0; i < index; i++) {
        row += scheduler->plan.steps[i].row_count;
    }
    return row;
}

/*
 * After a segment that ran up to `computed`: publishes if it ended at a boundary of its prompt, or at the end
 * of the page that the answer has just filled. There, the snapshot before in the same answer is of no more
 * use.
 */
static void share(struct scheduler *scheduler, struct sequence *sequence, int32_t index, int32_t computed) {
    const struct step_segment *step = &scheduler->plan.steps[index];
    const struct scheduler_options *options = &scheduler->options;
    int32_t end = computed / options->page_tokens * options->page_tokens;
    bool is_in_prompt = !scheduler->plan.segments[index].is_sampled;
    if (options->prefixes == NULL || !sequence->uses_prefix_cache || end <= step->first_position) {
        return;
    }
    if (is_in_prompt && (end != computed || scheduler_next_boundary(scheduler, sequence, end - 1) != end)) {
        return;
    }
    if (sequence->answer_snapshot > 0) {
        prefix_cache_drop_snapshot(options->prefixes, sequence->tokens, sequence->answer_snapshot);
    }
    sequence->answer_snapshot = end > sequence->prompt_count ? end : 0;
    publish(scheduler, sequence, end, first_row_of(scheduler, index) + end - 1 - step->first_position);
}

/* Accepts the tokens until the sequence ends; what comes behind its end is nobody's. */
static void take_tokens(struct scheduler *scheduler, struct sequence *sequence,
                        const struct round_feedback *feedback, double now) {
    bool is_over = false;
    for (int32_t i = 0; i < feedback->token_count && !is_over; i++) {
        is_over = sequence_accept(sequence, feedback->tokens[i], now);
        scheduler->gauges.output_tokens++;
    }
    sequence->draft_count = is_over ? 0 : feedback->draft_count;
    for (int32_t i = 0; i < sequence->draft_count; i++) {
        sequence->drafts[i] = feedback->drafts[i];
    }
}

static void take_feedback(struct scheduler *scheduler, const struct round_feedback *feedback, double now) {
    int32_t index = feedback->segment;
    struct sequence *sequence = scheduler->plan.sequences[index];
    const struct step_segment *step = &scheduler->plan.steps[index];
    int32_t drafts = scheduler->plan.segments[index].draft_count;
    if (feedback->status != STATUS_OK) {
        sequence_finish(sequence, SLUICE_FINISH_ERROR, feedback->status, feedback->message);
        return;
    }
    sequence->computed = step->first_position + step->row_count - drafts + feedback->accepted_drafts;
    sequence->verified_drafts += drafts;
    sequence->accepted_drafts += feedback->accepted_drafts;
    take_tokens(scheduler, sequence, feedback, now);
    /* Not beyond the tokens that the sequence kept. */
    share(scheduler, sequence, index,
          sequence->computed < sequence->token_count ? sequence->computed : sequence->token_count);
}

static void observe(struct scheduler *scheduler, const struct round_result *result) {
    struct plan_arrays *plan = &scheduler->plan;
    if (scheduler->options.controller == NULL) {
        return;
    }
    for (int32_t i = 0; i < result->feedback_count; i++) {
        const struct round_feedback *feedback = &result->feedback[i];
        plan->verified[i] = plan->segments[feedback->segment].draft_count;
        plan->accepted[i] = feedback->accepted_drafts;
    }
    draft_controller_observe(scheduler->options.controller, &plan->tick,
                             &(struct draft_outcome){.verified = plan->verified,
                                                     .accepted = plan->accepted,
                                                     .step_seconds = result->step_seconds,
                                                     .draft_seconds = result->draft_seconds});
}

static void take_prompt_part(struct scheduler *scheduler, int32_t index) {
    struct sequence *sequence = scheduler->plan.sequences[index];
    const struct step_segment *step = &scheduler->plan.steps[index];
    sequence->computed = step->first_position + step->row_count;
    share(scheduler, sequence, index, sequence->computed);
}

/* Sequences whose prompt has tokens without a probability end; nothing of theirs is taken in. */
static void take_prompt_errors(struct scheduler *scheduler, const struct round_result *result) {
    for (int32_t i = 0; i < result->prompt_error_count; i++) {
        const struct round_feedback *error = &result->prompt_errors[i];
        sequence_finish(scheduler->plan.sequences[error->segment], SLUICE_FINISH_ERROR, error->status,
                        error->message);
    }
}

/* Log-probabilities that the segment has recorded. */
static void take_scores(struct scheduler *scheduler, int32_t index) {
    const struct round_segment *segment = &scheduler->plan.segments[index];
    if (segment->end_scored_row > segment->first_scored_row) {
        scheduler->plan.sequences[index]->scored_count =
            segment->score_index + 1 + segment->end_scored_row - segment->first_scored_row;
    }
}

void scheduler_complete(struct scheduler *scheduler, const struct round_result *result, double now) {
    struct plan_arrays *plan = &scheduler->plan;
    int32_t taken = 0;
    /* They have been executed; what the new state asks for goes into the next plan. */
    scheduler_forget_changes(scheduler);
    observe(scheduler, result);
    take_prompt_errors(scheduler, result);
    for (int32_t i = 0; i < plan->segment_count; i++) {
        const struct round_feedback *feedback =
            plan->segments[i].is_sampled ? &result->feedback[taken++] : NULL;
        if (plan->sequences[i]->finish_reason != SLUICE_FINISH_NONE) {
            continue;
        }
        take_scores(scheduler, i);
        if (feedback != NULL) {
            take_feedback(scheduler, feedback, now);
        } else {
            take_prompt_part(scheduler, i);
        }
    }
    for (int32_t i = 0; i < plan->segment_count; i++) {
        if (plan->sequences[i]->finish_reason != SLUICE_FINISH_NONE) {
            scheduler_end(scheduler, plan->sequences[i]);
        }
    }
    plan->segment_count = 0;
}
