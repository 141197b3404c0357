/* The order of a round, on the leader and on the others. */
#include <stdio.h>

#include "base/clock.h"
#include "engine/batch_upload.h"
#include "engine/rank_watchdog.h"
#include "engine/round_internal.h"

/* Runs the segment once more on its own to say which layer went wrong. */
static enum status explain(struct round_runner *runner, const struct round_plan *plan,
                           struct round_feedback *feedback) {
    struct step_plan alone = {.segments = &plan->step.segments[feedback->segment], .segment_count = 1};
    enum status status = executor_explain_not_finite(runner->options.executor, &alone);
    if (status != STATUS_NOT_FINITE) {
        return status;
    }
    snprintf(feedback->message, sizeof feedback->message, "%.511s", error_last()->message);
    return STATUS_OK;
}

/* Boundary rows at the end of a page, where others may go on drafting. */
static enum status keep_rows(struct round_runner *runner, const struct round_plan *plan) {
    int32_t first_row = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct step_segment *step = &plan->step.segments[i];
        int32_t row = plan->segments[i].kept_row;
        if (row >= 0) {
            TRY(executor_save_row(runner->options.executor, first_row + row, step->slot));
        }
        first_row += step->row_count;
    }
    return STATUS_OK;
}

/*
 * The same for snapshots inside the step. After the draft layer, which may go on from what was kept for the
 * same snapshots' slots before; where it does nothing for a segment nobody will draft from its snapshot.
 */
static enum status keep_snapshot_rows(struct round_runner *runner, const struct round_plan *plan) {
    int32_t first_row = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        for (int32_t j = 0; j < plan->step.snapshot_count && plan->segments[i].catch_up_rows > 0; j++) {
            const struct step_snapshot *snapshot = &plan->step.snapshots[j];
            if (snapshot->segment == i) {
                TRY(executor_save_row(runner->options.executor, first_row + snapshot->row_count - 1,
                                      snapshot->slot));
            }
        }
        first_row += plan->step.segments[i].row_count;
    }
    return STATUS_OK;
}

/* Sequences that get their slots with this round. */
static enum status take_starts(struct round_runner *runner, const struct round_plan *plan) {
    for (int32_t i = 0; i < plan->start_count; i++) {
        struct round_start start = plan->starts[i];
        if (!round_is_leader(&runner->options)) {
            TRY(executor_receive_start(runner->options.executor, &start));
        }
        slot_rules_start(&runner->rules[start.slot], &start);
    }
    return STATUS_OK;
}

/* Sends the feedback on its way, or leaves it where the same rank takes it. */
static enum status send_feedback(struct round_runner *runner, const struct round_plan *plan,
                                 const struct feedback_tick *tick, int32_t count) {
    const struct round_runner_options *options = &runner->options;
    struct sent_feedback *sent = &runner->sent[tick->number % (uint64_t)options->in_flight_limit];
    for (int i = 0; i < 2 && options->ranks != NULL; i++) {
        TRY(comm_wait(options->ranks->control, &sent->requests[i]));
    }
    const struct round_result result = {.feedback = runner->feedback,
                                        .feedback_count = count,
                                        .prompt_feedback = runner->prompt_feedback,
                                        .prompt_feedback_count = runner->prompt_feedback_count};
    size_t extra_bytes =
        feedback_record_write(&runner->shape, tick, plan, &result, sent->memory, sent->extra);
    if (round_is_leader(options)) {
        return STATUS_OK;
    }
    TRY(comm_start_send(options->ranks->control, NULL, 0, sent->memory,
                        feedback_record_bytes(&runner->shape, count), &sent->requests[0]));
    return extra_bytes == 0 ? STATUS_OK
                            : comm_start_send(options->ranks->control, NULL, 0, sent->extra, extra_bytes,
                                              &sent->requests[1]);
}

/* Whether the draft layer runs, for this replica or for others. */
static bool has_draft_passes(const struct round_plan *plan) {
    return plan->regime != DRAFT_REGIME_COLD || plan->joint_draft_passes > 0;
}

/* Whether something runs on the last stage after the layers and the choice. */
static bool has_passes(const struct round_plan *plan) {
    return has_draft_passes(plan) || round_has_scores(plan);
}

/* Choice, drafts and feedback. A draft layer that gives no numbers fails the round, but loses no rank. */
static enum status choose_and_draft(struct round_runner *runner, const struct round_plan *plan,
                                    uint64_t number) {
    struct feedback_tick tick = {.number = number};
    char message[ERROR_MESSAGE_BYTES];
    int32_t count = 0;
    TRY(round_take_stage_seconds(runner, &tick.stages));
    double began = clock_seconds();
    round_choose(runner, plan, &count);
    runner->prompt_feedback_count = 0;
    if (round_has_scores(plan)) {
        TRY(round_score(runner, plan));
    }
    tick_trace_add(runner->options.trace, TRACE_CHOOSE, began);
    double chosen = clock_seconds();
    tick.stages.last = executor_step_seconds(runner->options.executor) + chosen - began;
    if (has_draft_passes(plan)) {
        tick.status = round_draft(runner, plan, count);
        if (tick.status != STATUS_OK && tick.status != STATUS_NOT_FINITE) {
            return error_forward(tick.status, ERROR_HERE);
        }
        if (tick.status == STATUS_NOT_FINITE) {
            snprintf(message, sizeof message, "%s", error_last()->message);
            tick.message = message;
        }
        tick.stages.draft = clock_seconds() - chosen;
        tick_trace_add(runner->options.trace, TRACE_DRAFT, chosen);
    }
    if (has_passes(plan)) {
        TRY(executor_end_passes(runner->options.executor));
    }
    TRY(keep_snapshot_rows(runner, plan));
    /* Last, for it leaves another boundary behind than the draft layer needs. */
    for (int32_t i = 0; i < count; i++) {
        if (runner->feedback[i].status == STATUS_NOT_FINITE) {
            TRY(explain(runner, plan, &runner->feedback[i]));
        }
    }
    for (int32_t i = 0; i < runner->prompt_feedback_count; i++) {
        if (runner->prompt_feedback[i].status == STATUS_NOT_FINITE) {
            TRY(explain(runner, plan, &runner->prompt_feedback[i]));
        }
    }
    return send_feedback(runner, plan, &tick, count);
}

static void trace_round(struct round_runner *runner, const struct round_plan *plan, uint64_t number) {
    tick_trace_set_tick(runner->options.trace, (struct trace_tick){.number = number,
                                                                   .group = plan->group,
                                                                   .rows = step_plan_row_count(&plan->step)});
}

static enum status run_part(struct round_runner *runner, const struct round_plan *plan) {
    const struct round_runner_options *options = &runner->options;
    uint64_t number = runner->number++;
    bool chooses = round_chooses(options);
    trace_round(runner, plan, number);
    if (chooses) {
        TRY(take_starts(runner, plan));
    }
    TRY(executor_step(options->executor, &plan->step, chooses ? runner->logits : NULL));
    if (!round_is_on_last_stage(options)) {
        return round_pass_stage_seconds(runner, number);
    }
    TRY(keep_rows(runner, plan));
    if (chooses) {
        return choose_and_draft(runner, plan, number);
    }
    if (has_passes(plan)) {
        double began = tick_trace_now(options->trace);
        TRY(executor_follow_passes(options->executor));
        tick_trace_add(options->trace, TRACE_DRAFT, began);
    }
    return keep_snapshot_rows(runner, plan);
}

enum status round_run_part(struct round_runner *runner, const struct round_plan *plan) {
    struct rank_pulse *pulse = runner->options.ranks == NULL ? NULL : runner->options.ranks->pulse;
    if (pulse == NULL) {
        return run_part(runner, plan);
    }
    atomic_store(&pulse->is_working, true);
    enum status status = run_part(runner, plan);
    atomic_store(&pulse->is_working, false);
    return status;
}

static int32_t count_sampled(const struct round_plan *plan) {
    int32_t count = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        count += plan->segments[i].is_sampled;
    }
    return count;
}

static enum status start_round(struct round_runner *runner, const struct round_plan *plan) {
    int32_t limit = runner->options.in_flight_limit;
    bool has_reports;
    CHECK(runner->in_flight < limit, STATUS_INTERNAL, "a round was started while %d were under way",
          runner->in_flight);
    rank_meter_start(executor_meter(runner->options.executor));
    bool has_answers = round_carries_prefix_answers(runner);
    TRY(round_ask_reports(runner, &has_reports));
    runner->rounds[(runner->oldest + runner->in_flight++) % limit] =
        (struct started_round){.plan = *plan,
                               .sampled_count = count_sampled(plan),
                               .number = runner->number,
                               .started = clock_seconds(),
                               .has_reports = has_reports,
                               .has_answers = has_answers};
    TRY(executor_lead(runner->options.executor,
                      &(struct plan_record){.kind = PLAN_KIND_ROUND, .round = *plan}));
    struct started_round *started = &runner->rounds[(runner->oldest + runner->in_flight - 1) % limit];
    if (!round_has_stage(&runner->options)) {
        runner->number++;
        return STATUS_OK;
    }
    TRY(round_run_part(runner, plan));
    started->stage_seconds =
        round_is_on_last_stage(&runner->options) ? 0.0 : executor_step_seconds(runner->options.executor);
    return STATUS_OK;
}

enum status round_start(struct round_runner *runner, const struct round_plan *plan) {
    enum status status = start_round(runner, plan);
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    runner->in_flight = 0;
    if (runner->options.ranks != NULL) {
        executor_ranks_abort(runner->options.ranks, error_last()->message);
    }
    return error_forward(status, ERROR_HERE);
}

uint64_t round_next_number(const struct round_runner *runner) {
    return runner->number;
}

int32_t round_in_flight(const struct round_runner *runner) {
    return runner->in_flight;
}

static enum status receive(struct round_runner *runner, void *memory, size_t bytes) {
    struct executor_ranks *ranks = runner->options.ranks;
    struct comm_request request;
    TRY(comm_start_receive(ranks->control, NULL, executor_ranks_chooser(ranks), memory, bytes, &request));
    return comm_wait(ranks->control, &request);
}

/* Where the feedback of a round is, after it has come. */
static enum status receive_feedback(struct round_runner *runner, const struct started_round *round,
                                    const void **memory, const void **extra) {
    const struct round_runner_options *options = &runner->options;
    size_t extra_bytes;
    bool is_here = round_chooses(options);
    double began = clock_seconds();
    trace_round(runner, &round->plan, round->number);
    if (round->has_answers) {
        TRY(round_take_prefix_answers(runner));
    }
    if (round->has_reports) {
        TRY(round_take_reports(runner));
    }
    const struct sent_feedback *sent =
        is_here ? &runner->sent[round->number % (uint64_t)options->in_flight_limit] : NULL;
    *memory = is_here ? sent->memory : runner->received;
    *extra = is_here ? sent->extra : runner->received_extra;
    if (!is_here) {
        TRY(receive(runner, runner->received, feedback_record_bytes(&runner->shape, round->sampled_count)));
    }
    TRY(feedback_record_check(&runner->shape, round->number, round->sampled_count, *memory, &extra_bytes));
    if (!is_here && extra_bytes > 0) {
        TRY(receive(runner, runner->received_extra, extra_bytes));
    }
    rank_meter_add_wait(executor_meter(options->executor), began);
    tick_trace_add(options->trace, TRACE_FEEDBACK_WAIT, began);
    return STATUS_OK;
}

/* What the round took of the clock, and by the work of its stages. */
static void add_seconds(struct round_runner *runner, const struct started_round *round,
                        struct stage_seconds stages, struct round_result *out) {
    double now = clock_seconds();
    double since = round->started > runner->last_finish ? round->started : runner->last_finish;
    if (round->stage_seconds > 0.0) {
        stage_seconds_add(&stages, round->stage_seconds);
    }
    struct tick_seconds tick = stage_seconds_of_tick(&stages, runner->in_flight);
    out->step_seconds = tick.step;
    out->draft_seconds = tick.draft;
    out->added_seconds = now - since;
    out->draft_layer_seconds = stages.draft;
    runner->last_finish = now;
}

static enum status finish_round(struct round_runner *runner, struct round_result *out) {
    const struct started_round *round = &runner->rounds[runner->oldest];
    struct feedback_tick tick;
    const void *memory;
    const void *extra;
    TRY(receive_feedback(runner, round, &memory, &extra));
    *out = (struct round_result){.feedback = runner->taken,
                                 .prompt_feedback = runner->taken + runner->options.sequence_limit};
    TRY(feedback_record_read(&runner->shape, &round->plan, memory, extra, &tick, out));
    CHECK(tick.status == STATUS_OK, tick.status, "%s", tick.message);
    add_seconds(runner, round, tick.stages, out);
    out->is_empty = round->plan.step.segment_count == 0;
    return STATUS_OK;
}

/* Rounds after one that failed: nobody wants what they give, but it must not be taken for another's. */
static void drop_rounds(struct round_runner *runner) {
    while (runner->in_flight > 0) {
        const void *memory;
        const void *extra;
        const struct started_round *round = &runner->rounds[runner->oldest];
        enum status status = receive_feedback(runner, round, &memory, &extra);
        runner->oldest = (runner->oldest + 1) % runner->options.in_flight_limit;
        runner->in_flight = status == STATUS_OK ? runner->in_flight - 1 : 0;
    }
}

enum status round_finish(struct round_runner *runner, struct round_result *out) {
    enum status status = finish_round(runner, out);
    runner->oldest = (runner->oldest + 1) % runner->options.in_flight_limit;
    runner->in_flight--;
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    char message[ERROR_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", error_last()->message);
    drop_rounds(runner);
    FAIL(status, "%s", message);
}

enum status round_follow(struct round_runner *runner) {
    struct executor *executor = runner->options.executor;
    struct plan_record record;
    for (;;) {
        TRY(executor_receive(executor, &record));
        if (record.kind == PLAN_KIND_END) {
            TRY(round_finish_stage_seconds(runner));
            return executor_finish_sends(executor);
        }
        if (record.kind == PLAN_KIND_ROUND) {
            rank_meter_start(executor_meter(executor));
        }
        TRY(record.kind == PLAN_KIND_ROUND ? round_run_part(runner, &record.round)
                                           : executor_obey(executor, &record));
    }
}

enum status round_end_followers(struct executor *executor) {
    TRY(executor_lead(executor, &(struct plan_record){.kind = PLAN_KIND_END}));
    return executor_finish_sends(executor);
}
