/*
 * Results of experts from wherever they were computed (spec parallelism 5.2 to 5.4).
 *
 * Replicas may share experts: then rows of a step are those of all of them, and where the ranks of a replica
 * each have all of its rows, each brings its even share of these (S-27). A replica without rows takes part
 * with none (E-19).
 *
 * Every rank learns all picks, so that who sends what to whom needs no further message. A rank computes rows
 * in their order in the step, whichever rank they came from, and sends results back in the order of (row,
 * slot): nothing depends on who comes first (E-6). The owner gets each result by itself (E-9 strict).
 */
#include "parallel/collectives.h"
#include "parallel/collectives_internal.h"
#include "parallel/expert_balance.h"
#include "parallel/expert_inputs.h"

/* Whole experts on several ranks, and who has which. */
struct exchange {
    const struct step *step;
    int64_t rows; /* of the step, of all replicas */
    int64_t picks;
    size_t result_bytes;       /* of one (row, slot) */
    int32_t *owners;           /* host [rows * picks]: the rank that has the picked expert */
    struct row_shares shares;  /* rows that each rank has, where they are dealt out */
    size_t *send_offsets;      /* host [ranks + 1] */
    size_t *receive_offsets;   /* the same */
    bool computes_picked_only; /* a rank computes the rows that picked an expert of it, else all */
};

static int owner_of(int32_t expert, int64_t expert_count, int ranks) {
    for (int rank = 0; rank < ranks; rank++) {
        struct shard_range range = shard_cut_experts(expert_count, rank, ranks);
        if (expert >= range.first && expert < range.first + range.count) {
            return rank;
        }
    }
    return 0;
}

/* Picks of all rows become the ranks that compute them; where experts move, they are counted. */
static void find_owners(const struct exchange *exchange, const struct layer_experts *layer) {
    const struct step_ranks *ranks = exchange->step->ranks;
    for (int64_t pair = 0; pair < exchange->rows * exchange->picks; pair++) {
        int32_t expert = exchange->owners[pair];
        if (ranks->balance == NULL) {
            exchange->owners[pair] = owner_of(expert, layer->count, ranks->expert_rank_count);
            continue;
        }
        int owner = expert_balance_owner(ranks->balance, layer->layer, expert, pair / exchange->picks);
        expert_balance_count(ranks->balance, layer->layer, expert);
        exchange->owners[pair] = owner;
        ranks->own_picks[pair] = owner == ranks->expert_rank ? expert : -1;
    }
}

/* `experts`: the picks of all rows. In a dry run nobody has picked anything. */
static enum status begin_exchange(const struct step *step, const struct moe_experts_args *args,
                                  const struct tensor *experts, const struct layer_experts *layer,
                                  struct exchange *out) {
    const struct step_ranks *ranks = step->ranks;
    *out = (struct exchange){.step = step,
                             .rows = experts->shape[0],
                             .picks = experts->shape[1],
                             .result_bytes = (size_t)args->out.shape[2] * dtype_bytes(args->out.dtype),
                             .owners = ranks->pair_experts,
                             .send_offsets = ranks->offsets,
                             .computes_picked_only =
                                 step->expert_shares != NULL && ranks->exchange == EXPERT_EXCHANGE_DISPATCH};
    if (step->expert_shares != NULL) {
        out->shares = *step->expert_shares;
    }
    if (step->queue->is_dry) {
        return STATUS_OK;
    }
    out->receive_offsets = ranks->offsets + ranks->expert_rank_count + 1;
    TRY(stream_copy_to_host(step->queue->stream, out->owners, experts->data, tensor_bytes(experts)));
    TRY(stream_synchronize(step->queue->stream));
    find_owners(out, layer);
    return STATUS_OK;
}

/*
 * Picks (all rows, picks) that this rank computes; the others are of no expert. Where experts lie in order
 * the bank leaves the others out.
 */
static enum status keep_own_picks(const struct exchange *exchange, struct tensor *experts) {
    const struct step *step = exchange->step;
    if (step->ranks->balance == NULL) {
        return STATUS_OK;
    }
    STEP_TENSOR(step, DTYPE_I32, experts, exchange->rows, exchange->picks);
    return step->queue->is_dry ? STATUS_OK
                               : stream_copy_to_device(step->queue->stream, experts->data,
                                                       step->ranks->own_picks, tensor_bytes(experts));
}

static enum status copy(const struct step *step, void *to, const void *from, size_t bytes) {
    return to == from ? STATUS_OK : stream_copy_within(step->queue->stream, to, from, bytes);
}

/* Whether rank `rank` computes something of the row. */
static bool computes_row(const struct exchange *exchange, int rank, int64_t row) {
    if (!exchange->computes_picked_only) {
        return true;
    }
    for (int64_t slot = 0; slot < exchange->picks; slot++) {
        if (exchange->owners[row * exchange->picks + slot] == rank) {
            return true;
        }
    }
    return false;
}

/* Results of rank `owner` for rows first to end - 1. */
static int64_t count_results(const struct exchange *exchange, int owner, int64_t first, int64_t end) {
    int64_t count = 0;
    for (int64_t pair = first * exchange->picks; pair < end * exchange->picks; pair++) {
        count += exchange->owners[pair] == owner;
    }
    return count;
}

/* Every rank has all rows: results that each rank computed, one rank's behind the other's. */
static void count_gathered(const struct exchange *exchange) {
    for (int rank = 0; rank < exchange->step->ranks->expert_rank_count; rank++) {
        exchange->send_offsets[rank + 1] =
            exchange->send_offsets[rank] +
            (size_t)count_results(exchange, rank, 0, exchange->rows) * exchange->result_bytes;
    }
}

/* Copies the results of rank `rank` between their places and the packed ones, in order of pairs. */
static enum status move_results(const struct exchange *exchange, int rank, unsigned char *placed,
                                unsigned char *packed, bool packs) {
    for (int64_t pair = 0; pair < exchange->rows * exchange->picks; pair++) {
        if (exchange->owners[pair] == rank) {
            unsigned char *place = placed + (size_t)pair * exchange->result_bytes;
            TRY(copy(exchange->step, packs ? packed : place, packs ? place : packed, exchange->result_bytes));
            packed += exchange->result_bytes;
        }
    }
    return STATUS_OK;
}

static enum status gather_results(const struct exchange *exchange, unsigned char *placed,
                                  unsigned char *packed) {
    const struct step_ranks *ranks = exchange->step->ranks;
    const size_t *offsets = exchange->send_offsets;
    exchange->send_offsets[0] = 0;
    count_gathered(exchange);
    TRY(move_results(exchange, ranks->expert_rank, placed, packed + offsets[ranks->expert_rank], true));
    TRY(comm_gather(ranks->experts, exchange->step->queue->stream, packed + offsets[ranks->expert_rank],
                    offsets, packed));
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        if (rank != ranks->expert_rank) {
            TRY(move_results(exchange, rank, placed, packed + offsets[rank], false));
        }
    }
    return STATUS_OK;
}

/* Every rank has all rows and computes those results that its experts give. */
static enum status share_results(const struct step *step, const struct moe_experts_args *args,
                                 const struct layer_experts *layer) {
    struct moe_experts_args here = *args;
    struct exchange exchange;
    void *packed;
    TRY(begin_exchange(step, args, &args->experts, layer, &exchange));
    TRY(keep_own_picks(&exchange, &here.experts));
    TRY(op_moe_experts(step->queue, &here));
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&args->out), &packed));
    return step->queue->is_dry ? STATUS_OK : gather_results(&exchange, args->out.data, packed);
}

/* Picks, weights and, if they are wanted, rows of all ranks of a group. */
static enum status gather_inputs(const struct step *step, struct gather_group group,
                                 const struct row_shares *shares, bool has_rows,
                                 struct moe_experts_args *args) {
    int64_t rows = shares->first[group.count];
    TRY(parallel_gather_tensor(step, group, shares, args->experts, rows, &args->experts));
    TRY(parallel_gather_tensor(step, group, shares, args->weights, rows, &args->weights));
    return has_rows ? parallel_gather_tensor(step, group, shares, args->x, rows, &args->x) : STATUS_OK;
}

/* Where each rank's part of an exchange of rows begins: own ones that others compute, others' computed here.
 */
static void count_rows(const struct exchange *exchange, size_t row_bytes) {
    const struct step_ranks *ranks = exchange->step->ranks;
    const int64_t *first = exchange->shares.first;
    exchange->send_offsets[0] = 0;
    exchange->receive_offsets[0] = 0;
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        size_t sent = 0;
        size_t received = 0;
        for (int64_t row = first[ranks->expert_rank]; row < first[ranks->expert_rank + 1]; row++) {
            sent += computes_row(exchange, rank, row) ? row_bytes : 0;
        }
        for (int64_t row = first[rank]; row < first[rank + 1]; row++) {
            received += computes_row(exchange, ranks->expert_rank, row) ? row_bytes : 0;
        }
        exchange->send_offsets[rank + 1] = exchange->send_offsets[rank] + sent;
        exchange->receive_offsets[rank + 1] = exchange->receive_offsets[rank] + received;
    }
}

/* Own rows, once for each rank that computes something of them. */
static enum status pack_rows(const struct exchange *exchange, const struct tensor *own,
                             unsigned char *packed) {
    const struct step_ranks *ranks = exchange->step->ranks;
    size_t row_bytes = (size_t)tensor_row_elements(own) * dtype_bytes(own->dtype);
    int64_t first = exchange->shares.first[ranks->expert_rank];
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        for (int64_t row = 0; row < own->shape[0]; row++) {
            if (computes_row(exchange, rank, first + row)) {
                TRY(copy(exchange->step, packed, (char *)own->data + (size_t)row * row_bytes, row_bytes));
                packed += row_bytes;
            }
        }
    }
    return STATUS_OK;
}

/* Of a tensor (all rows, ..) those that this rank computes, one behind the other, in place. */
static enum status keep_computed(const struct exchange *exchange, int64_t count, struct tensor *tensor) {
    size_t row_bytes = (size_t)tensor_row_elements(tensor) * dtype_bytes(tensor->dtype);
    char *to = tensor->data;
    for (int64_t row = 0; row < exchange->rows && !exchange->step->queue->is_dry; row++) {
        if (computes_row(exchange, exchange->step->ranks->expert_rank, row)) {
            TRY(copy(exchange->step, to, (char *)tensor->data + (size_t)row * row_bytes, row_bytes));
            to += row_bytes;
        }
    }
    tensor->shape[0] = count;
    return STATUS_OK;
}

/*
 * Rows go to the ranks that have some of their experts, once to each. At most every rank gets all own rows,
 * and this one computes all rows: a dry run has room for that.
 */
static enum status dispatch_rows(const struct exchange *exchange, struct moe_experts_args *args) {
    const struct step *step = exchange->step;
    const struct step_ranks *ranks = step->ranks;
    size_t row_bytes = (size_t)tensor_row_elements(&args->x) * dtype_bytes(args->x.dtype);
    size_t sent_bytes = (size_t)ranks->expert_rank_count * tensor_bytes(&args->x);
    int64_t received = exchange->rows;
    struct tensor x = args->x;
    void *packed;
    if (!step->queue->is_dry) {
        count_rows(exchange, row_bytes);
        sent_bytes = exchange->send_offsets[ranks->expert_rank_count];
        received = (int64_t)(exchange->receive_offsets[ranks->expert_rank_count] / row_bytes);
    }
    x.shape[0] = received;
    TRY(device_arena_alloc(step->queue->arena, sent_bytes, &packed));
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&x), &x.data));
    if (!step->queue->is_dry) {
        TRY(pack_rows(exchange, &args->x, packed));
        TRY(comm_exchange(ranks->experts, step->queue->stream, packed, exchange->send_offsets, x.data,
                          exchange->receive_offsets));
    }
    args->x = x;
    TRY(keep_computed(exchange, received, &args->experts));
    return keep_computed(exchange, received, &args->weights);
}

/* Results of the own experts, one behind the other in order of (row, slot), in place. */
static enum status pack_results(const struct exchange *exchange, unsigned char *results) {
    int own = exchange->step->ranks->expert_rank;
    const unsigned char *place = results;
    for (int64_t row = 0; row < exchange->rows; row++) {
        for (int64_t slot = 0; slot < exchange->picks && computes_row(exchange, own, row); slot++) {
            if (exchange->owners[row * exchange->picks + slot] == own) {
                TRY(copy(exchange->step, results, place, exchange->result_bytes));
                results += exchange->result_bytes;
            }
            place += exchange->result_bytes;
        }
    }
    return STATUS_OK;
}

static void count_returns(const struct exchange *exchange) {
    const struct step_ranks *ranks = exchange->step->ranks;
    const int64_t *first = exchange->shares.first;
    exchange->send_offsets[0] = 0;
    exchange->receive_offsets[0] = 0;
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        int64_t sent = count_results(exchange, ranks->expert_rank, first[rank], first[rank + 1]);
        int64_t received =
            count_results(exchange, rank, first[ranks->expert_rank], first[ranks->expert_rank + 1]);
        exchange->send_offsets[rank + 1] =
            exchange->send_offsets[rank] + (size_t)sent * exchange->result_bytes;
        exchange->receive_offsets[rank + 1] =
            exchange->receive_offsets[rank] + (size_t)received * exchange->result_bytes;
    }
}

/* Results of own rows from where they came in, rank after rank, to their places. */
static enum status place_results(const struct exchange *exchange, const unsigned char *received,
                                 unsigned char *placed) {
    const struct step_ranks *ranks = exchange->step->ranks;
    int64_t first = exchange->shares.first[ranks->expert_rank] * exchange->picks;
    int64_t end = exchange->shares.first[ranks->expert_rank + 1] * exchange->picks;
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        for (int64_t pair = first; pair < end; pair++) {
            if (exchange->owners[pair] == rank) {
                TRY(copy(exchange->step, placed + (size_t)(pair - first) * exchange->result_bytes, received,
                         exchange->result_bytes));
                received += exchange->result_bytes;
            }
        }
    }
    return STATUS_OK;
}

/* Every result goes back to the rank that has its row. `results`: of the rows computed here; overwritten. */
static enum status return_results(const struct exchange *exchange, struct tensor results,
                                  const struct tensor *out) {
    const struct step *step = exchange->step;
    void *received;
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(out), &received));
    if (step->queue->is_dry) {
        return STATUS_OK;
    }
    TRY(pack_results(exchange, results.data));
    count_returns(exchange);
    TRY(comm_exchange(step->ranks->experts, step->queue->stream, results.data, exchange->send_offsets,
                      received, exchange->receive_offsets));
    return place_results(exchange, received, out->data);
}

/* Rows are dealt out: they go to their experts, and the results come back. */
static enum status exchange_rows(const struct step *step, const struct moe_experts_args *args,
                                 const struct layer_experts *layer) {
    struct moe_experts_args here = *args;
    struct exchange exchange;
    const struct gather_group group = {.comm = step->ranks->experts, .count = step->ranks->expert_rank_count};
    TRY(expert_inputs_pack(step, args->bank, args->x, &here.x));
    TRY(gather_inputs(step, group, step->expert_shares, step->ranks->exchange == EXPERT_EXCHANGE_GATHER,
                      &here));
    TRY(begin_exchange(step, args, &here.experts, layer, &exchange));
    TRY(keep_own_picks(&exchange, &here.experts));
    if (exchange.computes_picked_only) {
        TRY(dispatch_rows(&exchange, &here));
    }
    TRY(expert_inputs_unpack(step, args->bank, args->x.shape[1], here.x, &here.x));
    here.out.shape[0] = here.x.shape[0];
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&here.out), &here.out.data));
    TRY(op_moe_experts(step->queue, &here));
    return return_results(&exchange, here.out, &args->out);
}

/*
 * Replicas share experts, and every rank of the stage has all rows of its own: each brings its share of them,
 * and the results come together.
 */
static enum status exchange_even_share(const struct step *step, const struct moe_experts_args *args,
                                       const struct layer_experts *layer) {
    const struct step_ranks *ranks = step->ranks;
    struct row_shares shares = row_shares_even(step->batch->row_count, ranks->count);
    int rank = step->queue->is_dry ? 0 : ranks->rank;
    int64_t first = shares.first[rank];
    int64_t count = shares.first[rank + 1] - first;
    struct moe_experts_args own = *args;
    own.x = tensor_slice(&args->x, first, count);
    own.experts = tensor_slice(&args->experts, first, count);
    own.weights = tensor_slice(&args->weights, first, count);
    own.out = tensor_slice(&args->out, first, count);
    TRY(exchange_rows(step, &own, layer));
    if (step->queue->is_dry || ranks->count == 1 || step->batch->row_count == 0) {
        return STATUS_OK;
    }
    parallel_byte_offsets(&shares, ranks->count,
                          (size_t)tensor_row_elements(&args->out) * dtype_bytes(args->out.dtype),
                          ranks->offsets);
    return comm_gather(ranks->tensor, step->queue->stream, own.out.data, ranks->offsets, args->out.data);
}

/* Every expert is cut: each rank has a part of every result. */
static enum status sum_results(const struct step *step, const struct moe_experts_args *args) {
    struct moe_experts_args partial = *args;
    struct tensor sum;
    if (step->shares != NULL) {
        TRY(expert_inputs_pack(step, args->bank, args->x, &partial.x));
        TRY(gather_inputs(step, parallel_stage_group(step), step->shares, true, &partial));
        TRY(expert_inputs_unpack(step, args->bank, args->x.shape[1], partial.x, &partial.x));
    }
    STEP_TENSOR(step, DTYPE_F32, &partial.out, step->batch->row_count, args->out.shape[1],
                args->out.shape[2]);
    TRY(op_moe_experts(step->queue, &partial));
    TRY(parallel_sum_to_own(step, partial.out, &sum));
    return parallel_round(step, &sum, &args->out);
}

enum status parallel_moe_experts(const struct step *step, const struct placed_rows *rows,
                                 const struct moe_experts_args *args, const struct layer_experts *layer) {
    TRY(parallel_expect_own(step, rows, "experts"));
    if (step->ranks == NULL || step->ranks->expert_rank_count == 1) {
        return op_moe_experts(step->queue, args);
    }
    size_t mark = device_arena_mark(step->queue->arena);
    if (!step->ranks->has_expert_parallelism) {
        TRY(sum_results(step, args));
    } else if (step->expert_shares == NULL) {
        TRY(share_results(step, args, layer));
    } else if (step->shares == NULL) {
        TRY(exchange_even_share(step, args, layer));
    } else {
        TRY(exchange_rows(step, args, layer));
    }
    device_arena_release(step->queue->arena, mark);
    return STATUS_OK;
}
