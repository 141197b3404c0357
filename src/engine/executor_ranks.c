/* Deadlines, and choices of how ranks share rows: none changes a bit, so that they are free to be the
 * fastest. */
#include "engine/executor_ranks.h"

enum { SHARED_ROWS_PER_RANK = 4 };

static void set_deadline(struct comm *comm, double seconds) {
    if (comm != NULL) {
        comm_set_deadline(comm, seconds);
    }
}

void executor_ranks_begin_tick(struct executor_ranks *ranks, uint64_t number) {
    if (ranks->watch != NULL) {
        atomic_store(&ranks->watch->tick, number);
    }
    if (number == EXECUTOR_WARM_UP_TICKS && ranks->deadline_seconds > 0) {
        set_deadline(ranks->control, ranks->deadline_seconds);
        set_deadline(ranks->step.tensor, ranks->deadline_seconds);
        set_deadline(ranks->step.experts, ranks->deadline_seconds);
        set_deadline(ranks->pipeline, ranks->deadline_seconds);
    }
}

void executor_ranks_abort(const struct executor_ranks *ranks, const char *reason) {
    struct comm *groups[] = {ranks->control, ranks->step.tensor, ranks->step.experts, ranks->pipeline,
                             ranks->leaders};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (groups[i] != NULL) {
            comm_abort(groups[i], reason);
        }
    }
}

int64_t executor_ranks_shared_rows_min(const struct sluice_parallel_options *parallel) {
    switch (parallel->row_sharing) {
    case SLUICE_ROW_SHARING_AUTO:
        break;
    case SLUICE_ROW_SHARING_ON:
        return 1;
    case SLUICE_ROW_SHARING_OFF:
        return INT64_MAX;
    }
    return parallel->shared_rows_min > 0 ? parallel->shared_rows_min
                                         : (int64_t)SHARED_ROWS_PER_RANK * parallel->tensor;
}

enum expert_exchange executor_ranks_exchange(const struct sluice_parallel_options *parallel,
                                             const struct model *model, int expert_ranks) {
    switch (parallel->expert_exchange) {
    case SLUICE_EXPERT_EXCHANGE_AUTO:
        break;
    case SLUICE_EXPERT_EXCHANGE_GATHER:
        return EXPERT_EXCHANGE_GATHER;
    case SLUICE_EXPERT_EXCHANGE_DISPATCH:
        return EXPERT_EXCHANGE_DISPATCH;
    }
    return sharing_choose_exchange(expert_ranks, (double)model->expert_picks);
}

bool executor_ranks_gathers_late(const struct sluice_parallel_options *parallel,
                                 const struct sharing_rates *rates, const struct attention_rows *rows) {
    switch (parallel->row_gather) {
    case SLUICE_ROW_GATHER_AUTO:
        break;
    case SLUICE_ROW_GATHER_EARLY:
        return false;
    case SLUICE_ROW_GATHER_LATE:
        return true;
    }
    const struct gather_choice choice = {.late_bytes = (double)rows->projected_bytes,
                                         .early_bytes = (double)rows->hidden_bytes,
                                         .operations = rows->operations};
    return sharing_prefers_late(&choice, rates);
}

void executor_ranks_share_rows(struct executor_ranks *ranks, const struct sluice_parallel_options *parallel,
                               const struct model *model) {
    ranks->shared_rows_min = executor_ranks_shared_rows_min(parallel);
    ranks->step.exchange = executor_ranks_exchange(parallel, model, ranks->step.expert_rank_count);
}

bool executor_ranks_have_whole_experts(const struct sluice_parallel_options *parallel,
                                       const struct model *model, int step_rows,
                                       const struct sharing_rates *rates) {
    switch (parallel->shared_experts) {
    case SLUICE_SHARED_EXPERTS_AUTO:
        break;
    case SLUICE_SHARED_EXPERTS_CUT:
        return false;
    case SLUICE_SHARED_EXPERTS_WHOLE:
        return true;
    }
    const struct whole_choice choice = {.ranks = parallel->tensor,
                                        .rows = step_rows,
                                        .row_bytes = (double)model->hidden_size * (2 + sizeof(float)),
                                        .bytes = (double)model->shared_expert_bytes};
    return step_rows >= executor_ranks_shared_rows_min(parallel) && sharing_prefers_whole(&choice, rates);
}
