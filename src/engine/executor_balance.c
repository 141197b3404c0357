/* A placement is told once it is chosen and holds some steps later, so that reading need not be waited for.
 */
#include "engine/executor_balance.h"

#include "base/file_map.h"
#include "base/log.h"

enum { INTERVAL_DEFAULT = 3000, READING_STEPS = 16 };

/* Ranks of a stage, in all replicas that share experts. */
static int expert_rank_count(const struct sluice_parallel_options *parallel) {
    return parallel->tensor * (parallel->data > 1 ? parallel->data : 1);
}

bool executor_balance_is_wanted(const struct sluice_parallel_options *parallel) {
    return parallel->has_movable_experts && expert_rank_count(parallel) > 1;
}

static enum status check_options(const struct sluice_parallel_options *parallel, const struct model *model) {
    int ranks = expert_rank_count(parallel);
    CHECK(parallel->has_expert_parallelism, STATUS_UNSUPPORTED,
          "only whole experts can move, but every expert was to be cut between ranks: leave "
          "--no-enable-expert-parallel or --enable-eplb out");
    int64_t most = model->expert_count * (ranks - 1);
    CHECK(parallel->expert_copies >= 0 && parallel->expert_copies <= most, STATUS_OUT_OF_RANGE,
          "%d copies of experts were asked for, but %lld experts have 0 to %lld on %d ranks",
          parallel->expert_copies, (long long)model->expert_count, (long long)most, ranks);
    CHECK(parallel->expert_move_interval == 0 || parallel->expert_move_interval >= 2, STATUS_OUT_OF_RANGE,
          "experts were to move every %d steps, expected 2 or more", parallel->expert_move_interval);
    return STATUS_OK;
}

enum status executor_balance_init(struct executor_ranks *ranks,
                                  const struct sluice_parallel_options *parallel, const struct model *model) {
    const struct expert_balance_shape shape = {.layer_count = model->layer_count + 1,
                                               .expert_count = (int)model->expert_count,
                                               .rank_count = expert_rank_count(parallel),
                                               .place_count =
                                                   (int)model->expert_count + parallel->expert_copies};
    if (!executor_balance_is_wanted(parallel) || model->expert_count == 0) {
        return STATUS_OK;
    }
    TRY(check_options(parallel, model));
    TRY(expert_balance_init(&ranks->balance, &shape));
    ranks->step.balance = &ranks->balance;
    ranks->balance_interval =
        parallel->expert_move_interval == 0 ? INTERVAL_DEFAULT : parallel->expert_move_interval;
    return STATUS_OK;
}

void executor_balance_deinit(struct executor_ranks *ranks) {
    expert_balance_deinit(&ranks->balance);
    ranks->step.balance = NULL;
}

/* From a placement's choice to the switch: fewer than the interval. */
static int64_t reading_steps(const struct executor_ranks *ranks) {
    return ranks->balance_interval > READING_STEPS ? READING_STEPS : ranks->balance_interval - 1;
}

/* Reads ahead what this rank is to get. Returns how many experts that are. */
static int read_ahead(const struct executor_ranks *ranks, const struct model *model) {
    const struct expert_balance *balance = &ranks->balance;
    int count = 0;
    for (int layer = 0; layer < balance->shape.layer_count; layer++) {
        for (int expert = 0; expert < balance->shape.expert_count; expert++) {
            struct memory_range ranges[EXPERT_RANGES_MAX];
            int range_count = 0;
            if (expert_balance_is_new(balance, layer, expert, ranks->step.expert_rank)) {
                range_count = model->family->list_expert(model, layer, expert, ranges);
            }
            for (int i = 0; i < range_count; i++) {
                file_map_read_ahead(ranges[i].bytes, ranges[i].length);
            }
            count += range_count > 0;
        }
    }
    return count;
}

static enum status tell_placement(struct executor_ranks *ranks, const struct model *model) {
    if (ranks->step.expert_rank == 0) {
        ranks->expert_imbalance = expert_balance_mean_skew(&ranks->balance);
        expert_balance_choose(&ranks->balance);
    }
    TRY(comm_broadcast_host(ranks->step.experts, 0, ranks->balance.next_holders,
                            expert_balance_bytes(&ranks->balance)));
    int count = read_ahead(ranks, model);
    ranks->expert_moves += count;
    if (count > 0) {
        log_write(LOG_INFO, "experts", "rank %d of stage %d gets %d experts of other ranks in step %lld",
                  ranks->step.expert_rank, ranks->stage, count,
                  (long long)(ranks->balance_steps + reading_steps(ranks)));
    }
    return STATUS_OK;
}

enum status executor_balance_begin_step(struct executor_ranks *ranks, const struct model *model) {
    if (ranks->step.balance == NULL) {
        return STATUS_OK;
    }
    int64_t since = ++ranks->balance_steps % ranks->balance_interval;
    if (since == 0) {
        return tell_placement(ranks, model);
    }
    if (since == reading_steps(ranks) && ranks->balance_steps > ranks->balance_interval) {
        expert_balance_switch(&ranks->balance);
    }
    return STATUS_OK;
}
