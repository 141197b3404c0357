/* Its core knows what the configuration says, and nothing of a checkpoint. */
#include "engine/outside_leader.h"

void outside_leader_place(struct outside_leader *leader, const struct executor_ranks *first, int replica,
                          int number) {
    struct executor_ranks *ranks = &leader->ranks;
    ranks->control_first = 1;
    ranks->replica = replica;
    ranks->replica_count = first->replica_count;
    ranks->number = number;
    ranks->stage = -1;
    ranks->stage_count = first->stage_count;
    ranks->step.count = first->step.count;
    ranks->bounds = first->bounds;
    ranks->in_flight_limit = first->in_flight_limit;
    ranks->record_limit = first->record_limit;
    ranks->draft_window = first->draft_window;
    ranks->deadline_seconds = first->deadline_seconds;
}

static enum status create_executor(struct engine_core *core) {
    const struct executor_options executor = {
        .model = core->model, .ranks = core->ranks, .trace = core->trace};
    return executor_create_outside(&executor, &core->executor);
}

enum status outside_leader_open(struct outside_leader *leader, const struct sluice_engine_options *options) {
    TRY(engine_core_measure(options, &leader->core));
    leader->core->ranks = &leader->ranks;
    TRY(engine_core_create_trace(leader->core));
    return create_executor(leader->core);
}

enum status outside_leader_set_context(struct outside_leader *leader, int64_t context_tokens) {
    TRY(engine_core_set_context(leader->core, context_tokens));
    leader->ranks.bounds = engine_core_plan_bounds(&leader->core->options);
    return create_executor(leader->core);
}

size_t outside_leader_bytes(const struct outside_leader *leader) {
    struct round_runner_options runner = engine_core_runner_options(leader->core);
    return round_runner_bytes(&runner, 0) + executor_trace_bytes(leader->core->executor);
}

void outside_leader_leave(struct outside_leader *leader) {
    comm_destroy(&leader->ranks.control);
    comm_destroy(&leader->ranks.leaders);
}

void outside_leader_close(struct outside_leader *leader) {
    if (leader->core != NULL) {
        leader->core->team = NULL;
    }
    engine_core_close(&leader->core);
}
