/*
 * The draft layer's part of a round: rows of committed tokens that only leave their state, then one row per
 * sequence and draft. Where replicas share experts, all of them have as many passes as one of them wants,
 * with rows or without (spec parallelism E-20).
 */
#include <stdio.h>

#include "engine/round_internal.h"

/* Draft passes of one kind, under construction. */
struct draft_rows {
    int32_t segment_count;
    int32_t row_count;
    int32_t snapshot_count;
};

static void add_rows(struct round_runner *runner, struct draft_rows *rows, int32_t slot, int32_t position,
                     int32_t count) {
    runner->draft_segments[rows->segment_count++] =
        (struct step_segment){.slot = slot,
                              .first_position = position,
                              .row_count = count,
                              .token_ids = runner->draft_tokens + rows->row_count};
    rows->row_count += count;
}

static enum status run_pass(struct round_runner *runner, const struct draft_rows *rows,
                            enum draft_source source, bool writes_state_only) {
    struct draft_plan plan = {.segments = runner->draft_segments,
                              .segment_count = rows->segment_count,
                              .source = source,
                              .source_rows = runner->draft_rows,
                              .writes_state_only = writes_state_only,
                              .snapshots = runner->draft_snapshots,
                              .snapshot_count = rows->snapshot_count};
    if (rows->row_count == 0 && writes_state_only) {
        return STATUS_OK;
    }
    return executor_run_draft(runner->options.executor, &plan,
                              writes_state_only ? NULL : runner->draft_logits);
}

/* Sequences that started from a snapshot: the row before their first depends on a token it did not know. */
static enum status catch_up_saved(struct round_runner *runner, const struct round_plan *plan) {
    struct draft_rows rows = {0};
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct step_segment *step = &plan->step.segments[i];
        if (plan->segments[i].saved_row >= 0) {
            runner->draft_rows[rows.row_count] = plan->segments[i].saved_row;
            runner->draft_tokens[rows.row_count] = step->token_ids[0];
            add_rows(runner, &rows, step->slot, step->first_position - 1, 1);
        }
    }
    return run_pass(runner, &rows, DRAFT_SOURCE_SAVED, true);
}

/* The token after row `row` of a segment; `feedback` NULL if the segment is not sampled. */
static int32_t token_after(const struct round_plan *plan, int32_t segment,
                           const struct round_feedback *feedback, int32_t row) {
    const struct step_segment *step = &plan->step.segments[segment];
    int32_t base_rows = step->row_count - plan->segments[segment].draft_count;
    if (row + 1 < base_rows) {
        return step->token_ids[row + 1];
    }
    return feedback == NULL ? plan->segments[segment].following_token : feedback->tokens[row + 1 - base_rows];
}

/* A snapshot inside the segment, whose last rows from row `first` on are the draft layer's next ones. */
static void add_snapshot(struct round_runner *runner, const struct round_plan *plan, int32_t segment,
                         int32_t first, struct draft_rows *rows) {
    for (int32_t i = 0; i < plan->step.snapshot_count; i++) {
        const struct step_snapshot *snapshot = &plan->step.snapshots[i];
        if (snapshot->segment == segment && snapshot->row_count > first) {
            runner->draft_snapshots[rows->snapshot_count++] =
                (struct step_snapshot){.segment = rows->segment_count,
                                       .row_count = snapshot->row_count - first,
                                       .slot = snapshot->slot};
        }
    }
}

/* Rows of a segment from where it catches up to its last committed one; `leaves_last`: that one excepted. */
static void add_catch_up(struct round_runner *runner, const struct round_plan *plan, int32_t segment,
                         const struct round_feedback *feedback, bool leaves_last, struct draft_rows *rows) {
    const struct step_segment *step = &plan->step.segments[segment];
    int32_t base_rows = step->row_count - plan->segments[segment].draft_count;
    int32_t first = base_rows - plan->segments[segment].catch_up_rows;
    int32_t end = base_rows + (feedback == NULL ? 0 : feedback->accepted_drafts) - leaves_last;
    for (int32_t row = first; row < end; row++) {
        runner->draft_rows[rows->row_count + row - first] = runner->first_rows[segment] + row;
        runner->draft_tokens[rows->row_count + row - first] = token_after(plan, segment, feedback, row);
    }
    if (end > first) {
        add_snapshot(runner, plan, segment, first, rows);
        add_rows(runner, rows, step->slot, step->first_position + first, end - first);
    }
}

/* Drafts to make for a sequence that goes on: what was planned, as far as its length allows. */
static int32_t wanted_drafts(const struct round_plan *plan, const struct round_feedback *feedback) {
    const struct round_segment *segment = &plan->segments[feedback->segment];
    int32_t room = segment->token_room - feedback->token_count - 1;
    if (feedback->status != STATUS_OK || room < 0) {
        return 0;
    }
    return segment->next_draft_count < room ? segment->next_draft_count : room;
}

static enum status catch_up(struct round_runner *runner, const struct round_plan *plan) {
    struct draft_rows rows = {0};
    int32_t taken = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct round_feedback *feedback =
            plan->segments[i].is_sampled ? &runner->feedback[taken++] : NULL;
        if (feedback == NULL || feedback->status == STATUS_OK) {
            bool leaves_last = feedback != NULL && wanted_drafts(plan, feedback) > 0;
            add_catch_up(runner, plan, i, feedback, leaves_last, &rows);
        }
    }
    return run_pass(runner, &rows, DRAFT_SOURCE_STEP, true);
}

static void start_drafting(struct round_runner *runner, const struct round_plan *plan,
                           int32_t feedback_count) {
    runner->drafting_count = 0;
    for (int32_t i = 0; i < feedback_count; i++) {
        if (wanted_drafts(plan, &runner->feedback[i]) > 0) {
            runner->drafting[runner->drafting_count++] = i;
        }
    }
}

/* Position of the last row that a sequence has committed in this round. */
static int32_t last_position(const struct round_plan *plan, const struct round_feedback *feedback) {
    const struct step_segment *step = &plan->step.segments[feedback->segment];
    return step->first_position + step->row_count - plan->segments[feedback->segment].draft_count - 1 +
           feedback->accepted_drafts;
}

/* The rows of draft number `index`: the newest token of each sequence at the position before it. */
static void add_draft_rows(struct round_runner *runner, const struct round_plan *plan, int32_t index,
                           struct draft_rows *rows) {
    for (int32_t i = 0; i < runner->drafting_count; i++) {
        const struct round_feedback *feedback = &runner->feedback[runner->drafting[i]];
        const struct step_segment *step = &plan->step.segments[feedback->segment];
        int32_t position = last_position(plan, feedback);
        if (index == 0) {
            runner->draft_rows[i] = runner->first_rows[feedback->segment] + position - step->first_position;
            runner->draft_tokens[i] = feedback->tokens[feedback->token_count - 1];
        } else {
            runner->draft_tokens[i] = feedback->drafts[index - 1];
        }
        add_rows(runner, rows, step->slot, position + index, 1);
    }
}

/* What the tasks of a draft choice share. */
struct draft_choice {
    struct round_runner *runner;
    const struct round_plan *plan;
    int32_t index; /* of the draft */
};

static void choose_draft(void *context, size_t item, unsigned worker) {
    const struct draft_choice *choice = context;
    struct round_runner *runner = choice->runner;
    struct round_feedback *feedback = &runner->feedback[runner->drafting[item]];
    const struct step_segment *step = &choice->plan->step.segments[feedback->segment];
    const struct slot_rules *rules = &runner->rules[step->slot];
    uint32_t position = (uint32_t)(last_position(choice->plan, feedback) + 2 + choice->index);
    enum status status = acceptance_draft(
        runner->workspaces[worker], &rules->sampling, rules->counts,
        runner->draft_logits + (int64_t)item * runner->options.vocabulary_size,
        runner->options.draft_sampling, rules->choice_index, position,
        round_draft_probabilities(runner, step->slot, choice->index), &feedback->drafts[choice->index]);
    /* A draft that cannot be made is none: the sequence goes on without. */
    feedback->draft_count += status == STATUS_OK;
}

/* Keeps the sequences that want another draft; their rows of the last pass are the sources of the next. */
static void keep_drafting(struct round_runner *runner, const struct round_plan *plan, int32_t made) {
    int32_t kept = 0;
    for (int32_t i = 0; i < runner->drafting_count; i++) {
        const struct round_feedback *feedback = &runner->feedback[runner->drafting[i]];
        if (feedback->draft_count == made && wanted_drafts(plan, feedback) > made) {
            runner->draft_rows[kept] = i;
            runner->drafting[kept++] = runner->drafting[i];
        }
    }
    runner->drafting_count = kept;
}

/* Pass number `index`, and the drafts that its rows give. */
static enum status draft_once(struct round_runner *runner, const struct round_plan *plan, int32_t index) {
    struct draft_rows rows = {0};
    struct draft_choice choice = {runner, plan, index};
    add_draft_rows(runner, plan, index, &rows);
    TRY(run_pass(runner, &rows, index == 0 ? DRAFT_SOURCE_STEP : DRAFT_SOURCE_DRAFT, false));
    worker_pool_run(runner->options.pool, (size_t)runner->drafting_count, choose_draft, &choice);
    keep_drafting(runner, plan, index + 1);
    return STATUS_OK;
}

enum status round_draft(struct round_runner *runner, const struct round_plan *plan, int32_t feedback_count) {
    enum status status = STATUS_OK;
    char message[ERROR_MESSAGE_BYTES] = "";
    runner->drafting_count = 0;
    if (plan->regime != DRAFT_REGIME_COLD) {
        TRY(catch_up_saved(runner, plan));
        TRY(catch_up(runner, plan));
        start_drafting(runner, plan, feedback_count);
    }
    for (int32_t index = 0; runner->drafting_count > 0 || index < plan->joint_draft_passes; index++) {
        enum status of_pass = draft_once(runner, plan, index);
        if (of_pass != STATUS_OK) {
            if (of_pass != STATUS_NOT_FINITE || plan->joint_draft_passes == 0) {
                return error_forward(of_pass, ERROR_HERE);
            }
            /* Others are in the passes to come, and wait for this replica there. */
            snprintf(message, sizeof message, "%s", error_last()->message);
            status = of_pass;
            runner->drafting_count = 0;
        }
    }
    CHECK(status == STATUS_OK, status, "%s", message);
    return STATUS_OK;
}
