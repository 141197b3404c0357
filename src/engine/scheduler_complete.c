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
    for (int32_t i = 0; i < page_count; i++) {
        if (sequence->pages[i] != before[i]) {
            scheduler_add_page_update(scheduler, sequence->slot, i, sequence->pages[i]);
        }
    }
}

/*
 * Shares the pages before `end`; returns the slot where the rings as they are at `end` and the boundary row
 * before it are to be kept, -1: nowhere.
 */
static int32_t share_pages(struct scheduler *scheduler, struct sequence *sequence, int32_t end) {
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
    return snapshot_slot;
}

/* The store below the cache gets a snapshot that what is planned so far leaves. */
static void store_snapshot(struct scheduler *scheduler, const struct sequence *sequence, int32_t end,
                           int32_t snapshot_slot) {
    const struct scheduler_store *store = &scheduler->options.store;
    if (store->keep != NULL) {
        struct step_plan pending = scheduler_pending_changes(scheduler);
        bool is_carried_out = false;
        store->keep(store->context, sequence->tokens, end, sequence->pages, snapshot_slot,
                    has_draft_rows(scheduler, sequence, end), &pending, &is_carried_out);
        if (is_carried_out) {
            scheduler_forget_changes(scheduler);
        }
    }
}

/* Shares the pages before `end`, where the rings still hold what a sequence starting there needs. */
static void publish(struct scheduler *scheduler, struct sequence *sequence, int32_t end) {
    int32_t snapshot_slot = share_pages(scheduler, sequence, end);
    if (snapshot_slot >= 0) {
        if (has_draft_rows(scheduler, sequence, end)) {
            scheduler_add_slot_operation(scheduler, STEP_SLOT_SAVE_ROW, sequence->slot, snapshot_slot);
        }
        scheduler_add_slot_operation(scheduler, STEP_SLOT_COPY, sequence->slot, snapshot_slot);
        store_snapshot(scheduler, sequence, end, snapshot_slot);
    }
}

static int32_t snapshot_end(const struct plan_arrays *plan, const struct step_snapshot *snapshot) {
    return plan->steps[snapshot->segment].first_position + snapshot->row_count;
}

/* The cache has given a slot to a newer snapshot of the same step: what it was for is not kept. */
static int32_t forget_slot(struct step_snapshot *snapshots, int32_t count, int32_t slot) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        if (snapshots[i].slot != slot) {
            snapshots[kept++] = snapshots[i];
        }
    }
    return kept;
}

void scheduler_place_snapshots(struct scheduler *scheduler) {
    struct plan_arrays *plan = scheduler->plan;
    int32_t placed = 0;
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        struct step_snapshot snapshot = plan->snapshots[i];
        snapshot.slot =
            share_pages(scheduler, plan->sequences[snapshot.segment], snapshot_end(plan, &snapshot));
        if (snapshot.slot >= 0) {
            placed = forget_slot(plan->snapshots, placed, snapshot.slot);
            plan->snapshots[placed++] = snapshot;
        }
    }
    plan->snapshot_count = placed;
}

/*
 * After a segment that ran up to `computed`: publishes if it ended at a boundary of its prompt, or at the end
 * of the page that the answer has just filled. There, the snapshot before in the same answer is of no more
 * use. Behind the end of a page the rings have room for drafts and no more.
 */
static void share(struct scheduler *scheduler, const struct plan_arrays *plan, int32_t index,
                  int32_t computed) {
    struct sequence *sequence = plan->sequences[index];
    const struct step_segment *step = &plan->steps[index];
    const struct scheduler_options *options = &scheduler->options;
    int32_t end = computed / options->page_tokens * options->page_tokens;
    bool is_in_prompt = !plan->segments[index].is_sampled;
    if (options->prefixes == NULL || !sequence->uses_prefix_cache || end <= step->first_position ||
        computed - end > options->draft_limit) {
        return;
    }
    if (is_in_prompt && (end != computed || scheduler_next_boundary(scheduler, sequence, end - 1) != end)) {
        return;
    }
    if (sequence->answer_snapshot > 0) {
        prefix_cache_drop_snapshot(options->prefixes, sequence->tokens, sequence->answer_snapshot);
    }
    sequence->answer_snapshot = end > sequence->prompt_count ? end : 0;
    publish(scheduler, sequence, end);
}

void scheduler_share_prompts(struct scheduler *scheduler, struct plan_arrays *plan) {
    for (int32_t i = 0; i < plan->snapshot_count && !plan->is_shared; i++) {
        const struct step_snapshot *snapshot = &plan->snapshots[i];
        store_snapshot(scheduler, plan->sequences[snapshot->segment], snapshot_end(plan, snapshot),
                       snapshot->slot);
    }
    for (int32_t i = 0; i < plan->segment_count && !plan->is_shared; i++) {
        const struct step_segment *step = &plan->steps[i];
        if (!plan->segments[i].is_sampled && plan->sequences[i]->finish_reason == SLUICE_FINISH_NONE) {
            share(scheduler, plan, i, step->first_position + step->row_count);
        }
    }
    plan->is_shared = true;
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

/* Keeps the log-probabilities of the tokens that the sequence has room for. */
static void take_records(struct sequence *sequence, const struct round_feedback *feedback) {
    int32_t answered = sequence->token_count - sequence->prompt_count;
    size_t count = (size_t)feedback->recorded_tokens * (size_t)feedback->record_width;
    if (count > 0) {
        memcpy(sequence->rules.log_probabilities + (int64_t)answered * feedback->record_width,
               feedback->log_probabilities, count * sizeof *feedback->log_probabilities);
    }
}

/* What the draft layer owes a snapshot it has not done for a segment that failed. */
static void drop_snapshot(struct scheduler *scheduler, const struct plan_arrays *plan, int32_t segment) {
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        if (plan->snapshots[i].segment == segment) {
            prefix_cache_drop_snapshot(scheduler->options.prefixes, plan->sequences[segment]->tokens,
                                       snapshot_end(plan, &plan->snapshots[i]));
        }
    }
}

static void take_feedback(struct scheduler *scheduler, const struct plan_arrays *plan,
                          const struct round_feedback *feedback, double now) {
    int32_t index = feedback->segment;
    struct sequence *sequence = plan->sequences[index];
    const struct step_segment *step = &plan->steps[index];
    int32_t drafts = plan->segments[index].draft_count;
    if (feedback->status != STATUS_OK) {
        drop_snapshot(scheduler, plan, index);
        sequence_finish(sequence, SLUICE_FINISH_ERROR, feedback->status, feedback->message);
        return;
    }
    sequence->computed = step->first_position + step->row_count - drafts + feedback->accepted_drafts;
    sequence->planned = sequence->computed;
    sequence->verified_drafts += drafts;
    sequence->accepted_drafts += feedback->accepted_drafts;
    take_records(sequence, feedback);
    take_tokens(scheduler, sequence, feedback, now);
    /* Not beyond the tokens that the sequence kept. */
    share(scheduler, plan, index,
          sequence->computed < sequence->token_count ? sequence->computed : sequence->token_count);
}

static void observe(struct scheduler *scheduler, struct plan_arrays *plan,
                    const struct round_result *result) {
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

/*
 * Log-probabilities of prompt tokens. Sequences whose prompt has tokens without one end; nothing of theirs is
 * taken in.
 */
static void take_scores(const struct plan_arrays *plan, const struct round_result *result) {
    for (int32_t i = 0; i < result->prompt_feedback_count; i++) {
        const struct round_feedback *feedback = &result->prompt_feedback[i];
        struct sequence *sequence = plan->sequences[feedback->segment];
        int32_t first = plan->steps[feedback->segment].first_position +
                        plan->segments[feedback->segment].first_scored_row;
        if (sequence->finish_reason != SLUICE_FINISH_NONE) {
            continue;
        }
        if (feedback->status != STATUS_OK) {
            sequence_finish(sequence, SLUICE_FINISH_ERROR, feedback->status, feedback->message);
            continue;
        }
        memcpy(sequence->rules.prompt_log_probabilities + (int64_t)first * feedback->record_width,
               feedback->log_probabilities,
               (size_t)feedback->recorded_tokens * (size_t)feedback->record_width *
                   sizeof *feedback->log_probabilities);
        sequence->scored_count = first + 1 + feedback->recorded_tokens;
    }
}

/* One more tick of the sequence is done; what it gave is nobody's if the sequence was over before. */
static void take_segment(struct scheduler *scheduler, const struct plan_arrays *plan, int32_t index,
                         const struct round_feedback *feedback, double now) {
    struct sequence *sequence = plan->sequences[index];
    const struct step_segment *step = &plan->steps[index];
    sequence->ticks--;
    if (feedback != NULL) {
        sequence->awaits_tokens = false;
    }
    if (sequence->finish_reason != SLUICE_FINISH_NONE) {
        return;
    }
    if (feedback != NULL) {
        take_feedback(scheduler, plan, feedback, now);
    } else {
        sequence->computed = step->first_position + step->row_count;
    }
}

void scheduler_complete(struct scheduler *scheduler, const struct round_result *result, double now) {
    struct plan_arrays *plan = &scheduler->plans[scheduler->oldest_plan];
    int32_t taken = 0;
    observe(scheduler, plan, result);
    take_scores(plan, result);
    scheduler_share_prompts(scheduler, plan);
    for (int32_t i = 0; i < plan->segment_count; i++) {
        bool is_sampled = plan->segments[i].is_sampled;
        take_segment(scheduler, plan, i, is_sampled ? &result->feedback[taken++] : NULL, now);
    }
    for (int32_t i = 0; i < plan->segment_count; i++) {
        struct sequence *sequence = plan->sequences[i];
        if (sequence->finish_reason != SLUICE_FINISH_NONE && sequence->ticks == 0) {
            scheduler_end(scheduler, sequence);
        }
    }
    if (result->feedback_count > 0) {
        scheduler->is_group_busy[plan->group] = false;
    }
    scheduler->oldest_plan = (scheduler->oldest_plan + 1) % scheduler->options.in_flight_limit;
    scheduler->plan_count--;
}
