/*
 * Making a plan: ends that were decided, pages, rows of a group's answers, rows of prompts, newcomers,
 * drafts.
 *
 * Pages come first and in order of rank, before any row is planned: so whoever has to give way is not yet in
 * the plan.
 */
#include <string.h>

#include "engine/scheduler_internal.h"

/* With a tick under way it is over at once and ends when the tick does. */
static void end_where_due(struct scheduler *scheduler, struct sequence_list *list, double now) {
    struct sequence *next;
    for (struct sequence *sequence = list->first; sequence != NULL; sequence = next) {
        next = sequence->next;
        if (sequence->finish_reason != SLUICE_FINISH_NONE) {
            continue;
        }
        if (sequence->is_cancelled) {
            sequence_finish(sequence, SLUICE_FINISH_CANCELLED, STATUS_OK, NULL);
        } else if (sequence->deadline > 0.0 && now >= sequence->deadline) {
            sequence_finish(sequence, SLUICE_FINISH_DEADLINE, STATUS_OK, NULL);
        } else {
            continue;
        }
        if (sequence->ticks == 0) {
            scheduler_end(scheduler, sequence);
        }
    }
}

static void preempt_where_due(struct scheduler *scheduler) {
    struct sequence *next;
    for (struct sequence *sequence = scheduler->running.first; sequence != NULL; sequence = next) {
        next = sequence->next;
        if (sequence->gives_way && sequence->ticks == 0) {
            scheduler_preempt(scheduler, sequence);
        }
    }
}

void scheduler_preempt(struct scheduler *scheduler, struct sequence *sequence) {
    scheduler_take_off(scheduler, sequence);
    sequence->phase = SEQUENCE_WAITING;
    sequence->preemptions++;
    scheduler->gauges.preemptions++;
    scheduler_list(&scheduler->waiting, sequence);
}

/* Last position that the sequence's rows of this step may reach, drafts excepted. */
static int32_t wanted_positions(const struct scheduler *scheduler, const struct sequence *sequence) {
    int32_t reach = sequence->planned + scheduler->options.row_limit;
    return reach < sequence->token_count ? reach : sequence->token_count;
}

static bool is_answering_in(const struct sequence *sequence, int32_t group) {
    return sequence->group == group && !sequence->awaits_tokens && !scheduler_is_leaving(sequence) &&
           sequence_is_answering(sequence);
}

static bool is_reading(const struct sequence *sequence) {
    return !sequence->awaits_tokens && !scheduler_is_leaving(sequence) && !sequence_is_answering(sequence) &&
           sequence->planned < sequence->token_count;
}

/*
 * Makes room for a sequence's rows; the lowest in rank gives way, at last the sequence itself. Who has rows
 * under way does so when they are done: until then the others wait.
 */
static bool make_room(struct scheduler *scheduler, struct sequence *sequence) {
    while (!scheduler_reserve_pages(scheduler, sequence, wanted_positions(scheduler, sequence))) {
        struct sequence *last = scheduler->running.last;
        if (last->ticks > 0) {
            last->gives_way = true;
            return false;
        }
        scheduler_preempt(scheduler, last);
        if (last == sequence) {
            return false;
        }
    }
    return true;
}

static void make_room_for_all(struct scheduler *scheduler) {
    int32_t group = scheduler->plan->group;
    struct sequence *sequence = scheduler->running.first;
    while (sequence != NULL &&
           (!(is_answering_in(sequence, group) || is_reading(sequence)) || make_room(scheduler, sequence))) {
        sequence = sequence->next;
    }
}

/* Drafts of which the constraint, the length and the pages allow a verification. */
static int32_t usable_drafts(struct scheduler *scheduler, struct sequence *sequence, int32_t row_room) {
    const struct sluice_constraint *constraint = &sequence->rules.constraint;
    int32_t count = sequence->draft_count < row_room ? sequence->draft_count : row_room;
    if (count > 0 && constraint->count_allowed != NULL) {
        count = (int32_t)constraint->count_allowed(constraint->context, sequence->drafts, (size_t)count);
    }
    while (count > 0 && !scheduler_reserve_pages(scheduler, sequence, sequence->token_count + count)) {
        count--;
    }
    return count;
}

static struct round_segment *add_segment(struct scheduler *scheduler, struct sequence *sequence,
                                         const int32_t *tokens, int32_t row_count) {
    struct plan_arrays *plan = scheduler->plan;
    int32_t index = plan->segment_count++;
    plan->sequences[index] = sequence;
    plan->steps[index] = (struct step_segment){.slot = sequence->slot,
                                               .first_position = sequence->planned,
                                               .row_count = row_count,
                                               .token_ids = tokens};
    plan->segments[index] =
        (struct round_segment){.generation = sequence->generation,
                               .token_room = sequence->token_limit - sequence->token_count,
                               .saved_row = -1,
                               .kept_row = -1};
    plan->row_count += row_count;
    return &plan->segments[index];
}

/* What the sequence's constraint allows after its tokens and the first `draft_count` of these drafts. */
static void add_mask(struct scheduler *scheduler, const struct sequence *sequence, const int32_t *drafts,
                     int32_t draft_count) {
    const struct sluice_constraint *constraint = &sequence->rules.constraint;
    int32_t row = scheduler->plan->logit_row_count;
    scheduler->row_masks[row] = NULL;
    if (constraint->allow == NULL) {
        return;
    }
    size_t words = (size_t)((scheduler->options.vocabulary_size + 31) / 32);
    token_mask_word *mask = scheduler->masks + (size_t)row * words;
    memset(mask, 0, words * sizeof *mask);
    if (constraint->allow(constraint->context, drafts, (size_t)draft_count, mask)) {
        scheduler->row_masks[row] = mask;
        scheduler->has_masks = true;
    }
}

/* Tokens are chosen from the segment's last row before the drafts, and from those of the drafts. */
static void want_tokens(struct scheduler *scheduler, struct sequence *sequence, int32_t first_row,
                        const int32_t *drafts, int32_t draft_count) {
    struct plan_arrays *plan = scheduler->plan;
    struct round_segment *segment = &plan->segments[plan->segment_count - 1];
    segment->is_sampled = true;
    segment->draft_count = draft_count;
    for (int32_t i = 0; i <= draft_count; i++) {
        add_mask(scheduler, sequence, drafts, i);
        plan->logit_rows[plan->logit_row_count++] = first_row + i;
    }
    sequence->awaits_tokens = true;
}

/* The row at the end of a page, from where others will go on drafting, is kept until it is known whether. */
static void keep_row(struct scheduler *scheduler, int32_t end) {
    struct plan_arrays *plan = scheduler->plan;
    int32_t index = plan->segment_count - 1;
    const struct scheduler_options *options = &scheduler->options;
    int32_t page_end = end / options->page_tokens * options->page_tokens;
    int32_t row = page_end - 1 - plan->steps[index].first_position;
    bool is_shared = options->prefixes != NULL && plan->sequences[index]->uses_prefix_cache;
    if (is_shared && options->draft_limit > 0 && row >= 0) {
        plan->segments[index].kept_row = row;
    }
}

/* The last known token and the drafts after it, side by side. `rows_after`: rows that others need. */
static void plan_answer(struct scheduler *scheduler, struct sequence *sequence, int32_t rows_after) {
    struct plan_arrays *plan = scheduler->plan;
    int32_t first_row = plan->row_count;
    if (!scheduler_reserve_pages(scheduler, sequence, sequence->token_count)) {
        return;
    }
    int32_t room = scheduler->options.row_limit - first_row - rows_after - 1;
    int32_t drafts = usable_drafts(scheduler, sequence, room);
    int32_t *tokens = plan->row_tokens + first_row;
    tokens[0] = sequence->tokens[sequence->token_count - 1];
    for (int32_t i = 0; i < drafts; i++) {
        tokens[1 + i] = sequence->drafts[i];
    }
    (void)add_segment(scheduler, sequence, tokens, 1 + drafts);
    want_tokens(scheduler, sequence, first_row, tokens + 1, drafts);
    keep_row(scheduler, sequence->token_count + drafts);
}

static void plan_answers(struct scheduler *scheduler) {
    int32_t group = scheduler->plan->group;
    int32_t left = 0;
    for (struct sequence *s = scheduler->running.first; s != NULL; s = s->next) {
        left += is_answering_in(s, group);
    }
    for (struct sequence *s = scheduler->running.first; s != NULL; s = s->next) {
        if (is_answering_in(s, group)) {
            plan_answer(scheduler, s, --left);
        }
    }
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

int32_t scheduler_next_boundary(const struct scheduler *scheduler, const struct sequence *sequence,
                                int32_t position) {
    const struct scheduler_options *options = &scheduler->options;
    int32_t end = sequence->token_count;
    if (options->prefixes == NULL || !sequence->uses_prefix_cache) {
        return end;
    }
    int32_t boundary = (position / options->snapshot_interval + 1) * options->snapshot_interval;
    /* One token must be left to run, so that a sequence which starts here has something to choose from. */
    int32_t last_page_end = (end - 1) / options->page_tokens * options->page_tokens;
    boundary = smaller(boundary, end);
    if (sequence->branch_point > position) {
        boundary = smaller(boundary, sequence->branch_point);
    }
    return last_page_end > position ? smaller(boundary, last_page_end) : boundary;
}

/*
 * Rows of a prompt's part that predict tokens of the prompt, except those that were recorded before the
 * sequence was preempted.
 */
static void plan_scores(const struct sequence *sequence, int32_t first, int32_t end,
                        struct round_segment *segment) {
    int32_t first_token = first + 1 < sequence->scored_count ? sequence->scored_count : first + 1;
    int32_t end_token = smaller(end + 1, sequence->prompt_count);
    if (sequence_is_scoring(sequence) && first_token < end_token) {
        segment->first_scored_row = first_token - 1 - first;
        segment->end_scored_row = end_token - 1 - first;
    }
}

/* Whether the plan may choose a token after a part of the sequence's prompt that ends here. */
static bool may_end_prompt(const struct scheduler *scheduler, const struct sequence *sequence, int32_t end) {
    return end < sequence->token_count || sequence->group == scheduler->plan->group;
}

/*
 * End of the rows that are planned now. If they go beyond a place where a snapshot is wanted, that is
 * *snapshot, else 0.
 */
static int32_t find_part_end(const struct scheduler *scheduler, const struct sequence *sequence,
                             int32_t *snapshot) {
    const struct scheduler_options *options = &scheduler->options;
    int32_t room_end = sequence->planned + options->row_limit - scheduler->plan->row_count;
    int32_t boundary = scheduler_next_boundary(scheduler, sequence, sequence->planned);
    *snapshot = 0;
    if (boundary >= room_end || boundary == sequence->token_count) {
        return smaller(room_end, boundary);
    }
    int32_t next = scheduler_next_boundary(scheduler, sequence, boundary);
    int32_t end = smaller(room_end, next);
    if (!may_end_prompt(scheduler, sequence, end)) {
        return boundary;
    }
    *snapshot = boundary;
    return end;
}

static void add_snapshot(struct plan_arrays *plan, int32_t end) {
    int32_t segment = plan->segment_count - 1;
    plan->snapshots[plan->snapshot_count++] = (struct step_snapshot){
        .segment = segment, .row_count = end - plan->steps[segment].first_position, .slot = -1};
}

bool scheduler_plan_prompt(struct scheduler *scheduler, struct sequence *sequence) {
    struct plan_arrays *plan = scheduler->plan;
    int32_t first = sequence->planned;
    int32_t snapshot;
    int32_t end = find_part_end(scheduler, sequence, &snapshot);
    bool is_last = end == sequence->token_count;
    if (end <= first || !may_end_prompt(scheduler, sequence, end) ||
        !scheduler_reserve_pages(scheduler, sequence, end)) {
        return false;
    }
    int32_t first_row = plan->row_count;
    struct round_segment *segment = add_segment(scheduler, sequence, sequence->tokens + first, end - first);
    segment->following_token = is_last ? -1 : sequence->tokens[end];
    plan_scores(sequence, first, end, segment);
    if (is_last) {
        want_tokens(scheduler, sequence, first_row + end - first - 1, NULL, 0);
    }
    if (snapshot > 0) {
        add_snapshot(plan, snapshot);
    }
    if (is_last || scheduler_next_boundary(scheduler, sequence, end - 1) == end) {
        keep_row(scheduler, end);
    }
    return true;
}

static void plan_prompts(struct scheduler *scheduler) {
    for (struct sequence *s = scheduler->running.first; s != NULL; s = s->next) {
        if (is_reading(s)) {
            scheduler_plan_prompt(scheduler, s);
        }
    }
}

/* Drafts that may be made now: the next round gets one token at least before it verifies them. */
static int32_t draft_room(const struct scheduler *scheduler, const struct sequence *sequence) {
    int32_t room = sequence->token_limit - sequence->token_count - 2;
    int32_t limit = smaller(sequence->draft_limit, scheduler->options.draft_limit);
    return room < 0 ? 0 : smaller(room, limit);
}

/* Where a snapshot is taken inside a segment; 0: nowhere. */
static int32_t find_snapshot(const struct plan_arrays *plan, int32_t segment) {
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        if (plan->snapshots[i].segment == segment) {
            return plan->steps[segment].first_position + plan->snapshots[i].row_count;
        }
    }
    return 0;
}

/*
 * Rows before the drafts whose draft state someone will read: before the next boundary from the segment's
 * snapshot on, if it has one, or the known end.
 */
static int32_t catch_up_rows(const struct scheduler *scheduler, int32_t index) {
    const struct plan_arrays *plan = scheduler->plan;
    int32_t first = plan->steps[index].first_position;
    int32_t end = first + plan->steps[index].row_count - plan->segments[index].draft_count;
    int32_t snapshot = find_snapshot(plan, index);
    int32_t target =
        scheduler_next_boundary(scheduler, plan->sequences[index], (snapshot > 0 ? snapshot : end) - 1);
    int32_t first_read = target - scheduler->options.draft_window;
    return first_read >= end ? 0 : smaller(end - first_read, end - first);
}

static void collect_candidates(struct scheduler *scheduler) {
    struct plan_arrays *plan = scheduler->plan;
    int64_t context = 0;
    int32_t rows = 0;
    int32_t draft_rows = 0;
    plan->candidate_count = 0;
    for (int32_t i = 0; i < plan->segment_count; i++) {
        struct round_segment *segment = &plan->segments[i];
        segment->catch_up_rows = catch_up_rows(scheduler, i);
        draft_rows += segment->catch_up_rows;
        if (segment->is_sampled) {
            const struct sequence *sequence = plan->sequences[i];
            plan->candidates[plan->candidate_count++] =
                (struct draft_candidate){.slot = sequence->slot,
                                         .pending_drafts = segment->draft_count,
                                         .draft_room = draft_room(scheduler, sequence)};
            context += sequence->token_count;
            rows += 1 + segment->draft_count;
            draft_rows -= smaller(1, segment->catch_up_rows);
        }
    }
    plan->tick = (struct draft_tick){
        .candidates = plan->candidates,
        .candidate_count = plan->candidate_count,
        .other_rows = plan->row_count - rows,
        .prompt_draft_rows = draft_rows,
        .context_tokens = plan->candidate_count == 0 ? 0 : (int32_t)(context / plan->candidate_count),
    };
}

/*
 * What the draft layer does for a segment. If that is nothing its rows stay unwritten, which the sequence
 * remembers; not even its rings are cleared.
 */
static void plan_draft_work(struct scheduler *scheduler, int32_t index, bool takes_part) {
    struct sequence *sequence = scheduler->plan->sequences[index];
    struct round_segment *segment = &scheduler->plan->segments[index];
    const struct step_segment *step = &scheduler->plan->steps[index];
    if (!takes_part) {
        sequence->draft_gap_end = step->first_position + step->row_count;
        segment->catch_up_rows = 0;
        segment->kept_row = -1;
        /* The last restored row knows the token after it of who left the snapshot. */
        sequence->has_draft_rings &= sequence->restored_from < 0;
    } else {
        segment->saved_row = sequence->restored_from;
        if (!sequence->has_draft_rings) {
            scheduler_add_slot_operation(scheduler, STEP_SLOT_CLEAR_DRAFT, 0, sequence->slot);
            sequence->has_draft_rings = true;
        }
    }
    sequence->restored_from = -1;
}

static enum draft_regime plan_drafts(struct scheduler *scheduler) {
    struct plan_arrays *plan = scheduler->plan;
    if (scheduler->options.controller == NULL) {
        return DRAFT_REGIME_COLD;
    }
    collect_candidates(scheduler);
    struct draft_orders orders =
        draft_controller_plan(scheduler->options.controller, &plan->tick, plan->drafts);
    int32_t candidate = 0;
    for (int32_t i = 0; i < plan->segment_count; i++) {
        bool is_candidate = plan->segments[i].is_sampled;
        plan_draft_work(scheduler, i,
                        is_candidate ? candidate < orders.participant_count : orders.has_prompts);
        if (is_candidate) {
            plan->segments[i].next_draft_count = plan->drafts[candidate++];
        }
    }
    return orders.regime;
}

static void start_plan(struct scheduler *scheduler, int32_t group) {
    struct plan_arrays *plan = scheduler->plan;
    plan->group = group;
    plan->segment_count = 0;
    plan->snapshot_count = 0;
    plan->row_count = 0;
    plan->logit_row_count = 0;
    plan->candidate_count = 0;
    plan->is_shared = false;
}

/* The rows of the plan are under way from here on. */
static void note_rows(struct scheduler *scheduler, double now) {
    const struct plan_arrays *plan = scheduler->plan;
    for (int32_t i = 0; i < plan->segment_count; i++) {
        struct sequence *sequence = plan->sequences[i];
        sequence->ticks++;
        sequence->planned = plan->steps[i].first_position + plan->steps[i].row_count;
        scheduler->is_group_busy[plan->group] |= plan->segments[i].is_sampled;
        if (sequence->start_seconds == 0.0) {
            sequence->start_seconds = now;
        }
    }
    scheduler->plan_count++;
    scheduler->next_group = (plan->group + 1) % scheduler->options.group_count;
}

/* What was pending is the plan's; what its end asks for goes into the next one. */
static void give_changes(struct scheduler *scheduler) {
    struct plan_changes given = scheduler->pending;
    scheduler->pending = scheduler->given;
    scheduler->given = given;
    scheduler_forget_changes(scheduler);
}

static struct round_plan make_round(const struct scheduler *scheduler, enum draft_regime regime) {
    const struct plan_arrays *plan = scheduler->plan;
    const struct plan_changes *given = &scheduler->given;
    return (struct round_plan){
        .step = {.segments = plan->steps,
                 .segment_count = plan->segment_count,
                 .logit_rows = plan->logit_rows,
                 .logit_row_count = plan->logit_row_count,
                 .page_updates = given->page_updates,
                 .page_update_count = given->page_update_count,
                 .slot_operations = given->slot_operations,
                 .slot_operation_count = given->slot_operation_count,
                 .snapshots = plan->snapshots,
                 .snapshot_count = plan->snapshot_count},
        .segments = plan->segments,
        .regime = regime,
        .starts = scheduler->starts,
        .start_count = scheduler->start_count,
        .row_masks = scheduler->has_masks ? scheduler->row_masks : NULL,
        .group = plan->group,
        .sequences = plan->sequences,
    };
}

/* Whether there is something to run in a tick of the group. */
static bool plan_group(struct scheduler *scheduler, int32_t group) {
    start_plan(scheduler, group);
    scheduler_even_groups(scheduler, group);
    make_room_for_all(scheduler);
    plan_answers(scheduler);
    plan_prompts(scheduler);
    scheduler_admit(scheduler);
    return scheduler->plan->segment_count > 0;
}

static bool plan_next_group(struct scheduler *scheduler) {
    int32_t groups = scheduler->options.group_count;
    int32_t first = scheduler->next_group;
    for (int32_t i = 0; i < groups; i++) {
        int32_t group = (first + i) % groups;
        if (!scheduler->is_group_busy[group] && plan_group(scheduler, group)) {
            return true;
        }
    }
    return false;
}

/* An answer never waits for more ticks than there are groups. */
static int32_t ticks_allowed(const struct scheduler *scheduler) {
    for (int32_t group = 0; group < scheduler->options.group_count; group++) {
        if (scheduler->is_group_busy[group]) {
            return scheduler->options.group_count;
        }
    }
    return scheduler->options.in_flight_limit;
}

bool scheduler_plan(struct scheduler *scheduler, double now, struct round_plan *out) {
    int32_t limit = scheduler->options.in_flight_limit;
    if (scheduler->plan_count > 0) {
        int32_t last = (scheduler->oldest_plan + scheduler->plan_count - 1) % limit;
        scheduler_share_prompts(scheduler, &scheduler->plans[last]);
    }
    scheduler_go_on_with_store(scheduler);
    end_where_due(scheduler, &scheduler->running, now);
    end_where_due(scheduler, &scheduler->waiting, now);
    preempt_where_due(scheduler);
    if (scheduler->plan_count >= ticks_allowed(scheduler)) {
        return false;
    }
    scheduler->plan = &scheduler->plans[(scheduler->oldest_plan + scheduler->plan_count) % limit];
    scheduler->start_count = 0;
    scheduler->has_masks = false;
    if (!plan_next_group(scheduler)) {
        return false;
    }
    enum draft_regime regime = plan_drafts(scheduler);
    note_rows(scheduler, now);
    give_changes(scheduler);
    scheduler_place_snapshots(scheduler);
    *out = make_round(scheduler, regime);
    return true;
}
