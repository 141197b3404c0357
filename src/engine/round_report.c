/*
 * When the leader asks what ranks have done: a few times a second while rounds are under way, and before a
 * rest.
 *
 * The chooser's answer comes before its feedback of the round that is started next, on the same way; so all
 * answers are taken when that round is finished, where they have long been there and cost no wait.
 */
#include "base/clock.h"
#include "engine/round_internal.h"

static const double REPORT_SECONDS = 0.25;

static int rank_count(const struct round_runner *runner) {
    return runner->options.ranks == NULL ? 1 : comm_size(runner->options.ranks->control);
}

static enum status ask(struct round_runner *runner, enum plan_kind kind) {
    runner->asked_at = clock_seconds();
    if (round_has_stage(&runner->options)) {
        executor_report(runner->options.executor, &runner->reports[0]);
    }
    return executor_lead(runner->options.executor, &(struct plan_record){.kind = kind});
}

enum status round_ask_reports(struct round_runner *runner, bool *is_asked) {
    *is_asked = false;
    if (runner->options.ranks == NULL || runner->is_asked ||
        clock_seconds() - runner->asked_at < REPORT_SECONDS) {
        return STATUS_OK;
    }
    TRY(ask(runner, PLAN_KIND_REPORT));
    runner->is_asked = true;
    *is_asked = true;
    return STATUS_OK;
}

enum status round_take_reports(struct round_runner *runner) {
    runner->is_asked = false;
    for (int i = 1; i < rank_count(runner); i++) {
        TRY(executor_take_report(runner->options.executor, i, &runner->reports[i]));
    }
    return STATUS_OK;
}

enum status round_rest(struct round_runner *runner) {
    struct rank_meter *meter = executor_meter(runner->options.executor);
    if (!meter->is_active) {
        return STATUS_OK;
    }
    rank_meter_rest(meter);
    TRY(ask(runner, PLAN_KIND_REST));
    return round_take_reports(runner);
}

const struct rank_report *round_reports(struct round_runner *runner, int *count) {
    const struct executor_ranks *ranks = runner->options.ranks;
    int first = ranks == NULL ? 0 : ranks->control_first;
    if (ranks == NULL) {
        executor_report(runner->options.executor, &runner->reports[0]);
    }
    *count = rank_count(runner) - first;
    return runner->reports + first;
}
