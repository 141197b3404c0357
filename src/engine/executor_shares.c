/* A dry run is that of the stage's first rank, whose even share is the largest. */
#include "engine/executor_shares.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int rank_count(const struct executor *executor) {
    return executor->options.ranks == NULL ? 1 : executor->options.ranks->step.count;
}

static bool deals_out(const struct executor *executor, int64_t rows) {
    return rank_count(executor) > 1 && rows >= executor->options.ranks->shared_rows_min;
}

struct row_deal executor_deal_step(const struct executor *executor, int64_t rows) {
    struct row_deal deal = {.is_shared = deals_out(executor, rows)};
    if (deal.is_shared) {
        deal.shares = row_shares_even(rows, rank_count(executor));
    }
    return deal;
}

/* Rows of which this rank brings the experts' inputs: where all ranks have all, each brings its share. */
static int64_t brought_rows(const struct executor *executor, int64_t rows, const struct row_deal *deal) {
    const struct step_ranks *ranks = &executor->options.ranks->step;
    return deal->is_shared
               ? executor_own_range(executor, rows, deal).count
               : shard_cut_rows(rows, executor->queue.is_dry ? 0 : ranks->rank, ranks->count).count;
}

enum status executor_share_experts(struct executor *executor, int64_t rows, int64_t limit,
                                   const struct row_deal *deal) {
    struct row_shares *shares = &executor->expert_shares;
    int64_t counts[STEP_RANKS_MAX];
    if (!executor_shares_experts(executor)) {
        return STATUS_OK;
    }
    const struct executor_ranks *ranks = executor->options.ranks;
    int count = ranks->step.expert_rank_count;
    int64_t own = brought_rows(executor, rows, deal);
    *shares = (struct row_shares){.first = {0, own}};
    if (executor->queue.is_dry) {
        shares->first[count] = ranks->replica_count * limit;
        return STATUS_OK;
    }
    for (int rank = 0; rank <= count; rank++) {
        ranks->step.offsets[rank] = (size_t)rank * sizeof own;
    }
    TRY(comm_gather(ranks->step.experts, NULL, &own, ranks->step.offsets, counts));
    for (int rank = 0; rank < count; rank++) {
        shares->first[rank + 1] = shares->first[rank] + counts[rank];
    }
    CHECK(shares->first[count] <= ranks->replica_count * limit, STATUS_INTERNAL,
          "%d replicas bring %lld rows to their experts, at most %lld fit", ranks->replica_count,
          (long long)shares->first[count], (long long)(ranks->replica_count * limit));
    return STATUS_OK;
}

int64_t executor_boundary_rows(const struct executor *executor) {
    int64_t limit = executor->options.row_limit;
    if (!deals_out(executor, limit)) {
        return limit;
    }
    int64_t share = shard_cut_rows(limit, 0, rank_count(executor)).count;
    int64_t unshared = executor->options.ranks->shared_rows_min - 1;
    return share > unshared ? share : unshared;
}

enum status executor_deal_sources(const struct executor *executor, const struct row_deal *source,
                                  const int32_t *source_rows, int64_t count, struct row_deal *out) {
    int ranks = rank_count(executor);
    int last_owner = 0;
    *out = (struct row_deal){.is_shared = source->is_shared};
    if (!source->is_shared) {
        return STATUS_OK;
    }
    if (executor->queue.is_dry) {
        out->shares.first[1] = smaller(count, source->shares.first[1]);
        out->shares.first[ranks] = count;
        return STATUS_OK;
    }
    for (int64_t row = 0; row < count; row++) {
        int owner = row_shares_owner(&source->shares, ranks, source_rows[row]);
        CHECK(
            owner >= last_owner, STATUS_INTERNAL,
            "row %lld of a draft pass goes on from a row of rank %d, the row before it from one of rank %d: "
            "rows must follow their sources",
            (long long)row, owner, last_owner);
        for (int rank = last_owner + 1; rank <= owner; rank++) {
            out->shares.first[rank] = row;
        }
        last_owner = owner;
    }
    for (int rank = last_owner + 1; rank <= ranks; rank++) {
        out->shares.first[rank] = count;
    }
    return STATUS_OK;
}

struct shard_range executor_own_range(const struct executor *executor, int64_t rows,
                                      const struct row_deal *deal) {
    if (!deal->is_shared) {
        return (struct shard_range){.count = rows};
    }
    const int64_t *first = deal->shares.first;
    first += executor->queue.is_dry ? 0 : executor->options.ranks->step.rank;
    return (struct shard_range){.first = first[0], .count = first[1] - first[0]};
}

struct boundary executor_own_boundary(const struct executor *executor, const struct boundary *memory,
                                      int64_t rows, const struct row_deal *deal) {
    struct boundary own = executor_slice_boundary(memory, 0, executor_own_range(executor, rows, deal).count);
    own.layout = deal->is_shared ? ROWS_SHARD : ROWS_FULL;
    own.shares = deal->is_shared ? &deal->shares : NULL;
    return own;
}

struct executor_sent_bytes executor_sent_bytes(const struct executor *executor) {
    if (executor->options.ranks == NULL) {
        return (struct executor_sent_bytes){0};
    }
    const struct comm *tensor = executor->options.ranks->step.tensor;
    const struct comm *experts = executor->options.ranks->step.experts;
    struct executor_sent_bytes sent = {.sums = comm_sent_bytes_in(tensor, COMM_TRAFFIC_SUM),
                                       .gathers = comm_sent_bytes_in(tensor, COMM_TRAFFIC_GATHER),
                                       .exchanges = comm_sent_bytes_in(tensor, COMM_TRAFFIC_EXCHANGE)};
    if (experts != tensor) {
        sent.gathers += comm_sent_bytes_in(experts, COMM_TRAFFIC_GATHER);
        sent.exchanges += comm_sent_bytes_in(experts, COMM_TRAFFIC_EXCHANGE);
    }
    return sent;
}
