/* How long the stages of a tick took, on its way behind the boundary. */
#include "engine/round_internal.h"

/* What the stages before this one took, as far as they tell it. */
static enum status receive_seconds(const struct round_runner_options *options, struct stage_seconds *out) {
    struct executor_ranks *ranks = options->ranks;
    struct comm_request request;
    int from = comm_rank(ranks->control) - comm_size(ranks->step.tensor);
    TRY(comm_start_receive(ranks->control, NULL, from, out, sizeof *out, &request));
    return comm_wait(ranks->control, &request);
}

enum status round_pass_stage_seconds(struct round_runner *runner, uint64_t number) {
    const struct round_runner_options *options = &runner->options;
    if (!round_passes_seconds(options)) {
        return STATUS_OK;
    }
    struct executor_ranks *ranks = options->ranks;
    struct sent_seconds *sent = &runner->sent_seconds[number % (uint64_t)options->in_flight_limit];
    TRY(comm_wait(ranks->control, &sent->request));
    sent->stages = (struct stage_seconds){0};
    if (ranks->stage > round_first_told_stage(ranks)) {
        TRY(receive_seconds(options, &sent->stages));
    }
    stage_seconds_add(&sent->stages, executor_step_seconds(options->executor));
    int to = comm_rank(ranks->control) + comm_size(ranks->step.tensor);
    return comm_start_send(ranks->control, NULL, to, &sent->stages, sizeof sent->stages, &sent->request);
}

enum status round_take_stage_seconds(struct round_runner *runner, struct stage_seconds *out) {
    const struct round_runner_options *options = &runner->options;
    const struct executor_ranks *ranks = options->ranks;
    *out = (struct stage_seconds){0};
    return ranks != NULL && options->draft_limit > 0 && ranks->stage > round_first_told_stage(ranks)
               ? receive_seconds(options, out)
               : STATUS_OK;
}

enum status round_finish_stage_seconds(struct round_runner *runner) {
    for (int32_t i = 0; runner->sent_seconds != NULL && i < runner->options.in_flight_limit; i++) {
        TRY(comm_wait(runner->options.ranks->control, &runner->sent_seconds[i].request));
    }
    return STATUS_OK;
}
