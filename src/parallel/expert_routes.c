/*
 * Every rank learns all picks, so that who sends what to whom needs no further message. A rank computes rows
 * in their order in the step, whichever rank they came from, and sends results back in the order of (row,
 * slot): nothing depends on who comes first (E-6). The owner gets each result by itself (E-9 strict).
 */
#include "parallel/expert_routes.h"

#include "parallel/expert_balance.h"

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
static void find_owners(const struct expert_routes *routes, const struct layer_experts *layer) {
    const struct step_ranks *ranks = routes->step->ranks;
    for (int64_t pair = 0; pair < routes->rows * routes->picks; pair++) {
        int32_t expert = routes->owners[pair];
        if (ranks->balance == NULL) {
            routes->owners[pair] = owner_of(expert, layer->count, ranks->expert_rank_count);
            continue;
        }
        int owner = expert_balance_owner(ranks->balance, layer->layer, expert, pair / routes->picks);
        expert_balance_count(ranks->balance, layer->layer, expert);
        routes->owners[pair] = owner;
        ranks->own_picks[pair] = owner == ranks->expert_rank ? expert : -1;
    }
}

enum status expert_routes_begin(const struct step *step, const struct moe_experts_args *args,
                                const struct tensor *experts, const struct layer_experts *layer,
                                struct expert_routes *out) {
    const struct step_ranks *ranks = step->ranks;
    *out = (struct expert_routes){.step = step,
                                  .rows = experts->shape[0],
                                  .picks = experts->shape[1],
                                  .result_bytes = (size_t)args->out.shape[2] * dtype_bytes(args->out.dtype),
                                  .owners = ranks->pair_experts,
                                  .send_offsets = ranks->offsets,
                                  .computes_picked_only = step->expert_shares != NULL &&
                                                          ranks->exchange == EXPERT_EXCHANGE_DISPATCH};
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

enum status expert_routes_keep_picks(const struct expert_routes *routes, struct tensor *experts) {
    const struct step *step = routes->step;
    if (step->ranks->balance == NULL) {
        return STATUS_OK;
    }
    STEP_TENSOR(step, DTYPE_I32, experts, routes->rows, routes->picks);
    return step->queue->is_dry ? STATUS_OK
                               : stream_copy_to_device(step->queue->stream, experts->data,
                                                       step->ranks->own_picks, tensor_bytes(experts));
}

static enum status copy(const struct step *step, void *to, const void *from, size_t bytes) {
    return to == from ? STATUS_OK : stream_copy_within(step->queue->stream, to, from, bytes);
}

/* Whether rank `rank` computes something of the row. */
static bool computes_row(const struct expert_routes *routes, int rank, int64_t row) {
    if (!routes->computes_picked_only) {
        return true;
    }
    for (int64_t slot = 0; slot < routes->picks; slot++) {
        if (routes->owners[row * routes->picks + slot] == rank) {
            return true;
        }
    }
    return false;
}

/* Results of rank `owner` for rows first to end - 1. */
static int64_t count_results(const struct expert_routes *routes, int owner, int64_t first, int64_t end) {
    int64_t count = 0;
    for (int64_t pair = first * routes->picks; pair < end * routes->picks; pair++) {
        count += routes->owners[pair] == owner;
    }
    return count;
}

/* Every rank has all rows: results that each rank computed, one rank's behind the other's. */
static void count_gathered(const struct expert_routes *routes) {
    routes->send_offsets[0] = 0;
    for (int rank = 0; rank < routes->step->ranks->expert_rank_count; rank++) {
        routes->send_offsets[rank + 1] =
            routes->send_offsets[rank] +
            (size_t)count_results(routes, rank, 0, routes->rows) * routes->result_bytes;
    }
}

/* Copies the results of rank `rank` between their places and the packed ones, in order of pairs. */
static enum status move_results(const struct expert_routes *routes, int rank, unsigned char *placed,
                                unsigned char *packed, bool packs) {
    for (int64_t pair = 0; pair < routes->rows * routes->picks; pair++) {
        if (routes->owners[pair] == rank) {
            unsigned char *place = placed + (size_t)pair * routes->result_bytes;
            TRY(copy(routes->step, packs ? packed : place, packs ? place : packed, routes->result_bytes));
            packed += routes->result_bytes;
        }
    }
    return STATUS_OK;
}

enum status expert_routes_gather_results(const struct expert_routes *routes, unsigned char *placed,
                                         unsigned char *packed, struct comm_flight *flight) {
    const struct step_ranks *ranks = routes->step->ranks;
    count_gathered(routes);
    unsigned char *own = packed + routes->send_offsets[ranks->expert_rank];
    TRY(move_results(routes, ranks->expert_rank, placed, own, true));
    return comm_start_gather(ranks->experts, routes->step->queue->stream, own, routes->send_offsets, packed,
                             flight);
}

enum status expert_routes_place_gathered(const struct expert_routes *routes, unsigned char *placed,
                                         unsigned char *packed) {
    count_gathered(routes); /* others have used the scratch since */
    for (int rank = 0; rank < routes->step->ranks->expert_rank_count; rank++) {
        if (rank != routes->step->ranks->expert_rank) {
            TRY(move_results(routes, rank, placed, packed + routes->send_offsets[rank], false));
        }
    }
    return STATUS_OK;
}

/* Where each rank's part of an exchange of rows begins: own ones that others compute, others' computed here.
 */
static void count_rows(const struct expert_routes *routes, size_t row_bytes) {
    const struct step_ranks *ranks = routes->step->ranks;
    const int64_t *first = routes->shares.first;
    routes->send_offsets[0] = 0;
    routes->receive_offsets[0] = 0;
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        size_t sent = 0;
        size_t received = 0;
        for (int64_t row = first[ranks->expert_rank]; row < first[ranks->expert_rank + 1]; row++) {
            sent += computes_row(routes, rank, row) ? row_bytes : 0;
        }
        for (int64_t row = first[rank]; row < first[rank + 1]; row++) {
            received += computes_row(routes, ranks->expert_rank, row) ? row_bytes : 0;
        }
        routes->send_offsets[rank + 1] = routes->send_offsets[rank] + sent;
        routes->receive_offsets[rank + 1] = routes->receive_offsets[rank] + received;
    }
}

/* Own rows, once for each rank that computes something of them. */
static enum status pack_rows(const struct expert_routes *routes, const struct tensor *own,
                             unsigned char *packed) {
    const struct step_ranks *ranks = routes->step->ranks;
    size_t row_bytes = (size_t)tensor_row_elements(own) * dtype_bytes(own->dtype);
    int64_t first = routes->shares.first[ranks->expert_rank];
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        for (int64_t row = 0; row < own->shape[0]; row++) {
            if (computes_row(routes, rank, first + row)) {
                TRY(copy(routes->step, packed, (char *)own->data + (size_t)row * row_bytes, row_bytes));
                packed += row_bytes;
            }
        }
    }
    return STATUS_OK;
}

/* Of a tensor (all rows, ..) those that this rank computes, one behind the other, in place. */
static enum status keep_computed(const struct expert_routes *routes, int64_t count, struct tensor *tensor) {
    size_t row_bytes = (size_t)tensor_row_elements(tensor) * dtype_bytes(tensor->dtype);
    char *to = tensor->data;
    for (int64_t row = 0; row < routes->rows && !routes->step->queue->is_dry; row++) {
        if (computes_row(routes, routes->step->ranks->expert_rank, row)) {
            TRY(copy(routes->step, to, (char *)tensor->data + (size_t)row * row_bytes, row_bytes));
            to += row_bytes;
        }
    }
    tensor->shape[0] = count;
    return STATUS_OK;
}

enum status expert_routes_send_rows(const struct expert_routes *routes, struct moe_experts_args *args,
                                    struct comm_flight *flight) {
    const struct step *step = routes->step;
    const struct step_ranks *ranks = step->ranks;
    size_t row_bytes = (size_t)tensor_row_elements(&args->x) * dtype_bytes(args->x.dtype);
    size_t sent_bytes = (size_t)ranks->expert_rank_count * tensor_bytes(&args->x);
    int64_t received = routes->rows;
    struct tensor x = args->x;
    void *packed;
    if (!step->queue->is_dry) {
        count_rows(routes, row_bytes);
        sent_bytes = routes->send_offsets[ranks->expert_rank_count];
        received = (int64_t)(routes->receive_offsets[ranks->expert_rank_count] / row_bytes);
    }
    x.shape[0] = received;
    TRY(device_arena_alloc(step->queue->arena, sent_bytes, &packed));
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&x), &x.data));
    if (!step->queue->is_dry) {
        TRY(pack_rows(routes, &args->x, packed));
        TRY(comm_start_exchange(ranks->experts, step->queue->stream, packed, routes->send_offsets, x.data,
                                routes->receive_offsets, flight));
    }
    args->x = x;
    TRY(keep_computed(routes, received, &args->experts));
    return keep_computed(routes, received, &args->weights);
}

/* Results of the own experts, one behind the other in order of (row, slot), in place. */
static enum status pack_results(const struct expert_routes *routes, unsigned char *results) {
    int own = routes->step->ranks->expert_rank;
    const unsigned char *place = results;
    for (int64_t row = 0; row < routes->rows; row++) {
        for (int64_t slot = 0; slot < routes->picks && computes_row(routes, own, row); slot++) {
            if (routes->owners[row * routes->picks + slot] == own) {
                TRY(copy(routes->step, results, place, routes->result_bytes));
                results += routes->result_bytes;
            }
            place += routes->result_bytes;
        }
    }
    return STATUS_OK;
}

static void count_returns(const struct expert_routes *routes) {
    const struct step_ranks *ranks = routes->step->ranks;
    const int64_t *first = routes->shares.first;
    routes->send_offsets[0] = 0;
    routes->receive_offsets[0] = 0;
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        int64_t sent = count_results(routes, ranks->expert_rank, first[rank], first[rank + 1]);
        int64_t received =
            count_results(routes, rank, first[ranks->expert_rank], first[ranks->expert_rank + 1]);
        routes->send_offsets[rank + 1] = routes->send_offsets[rank] + (size_t)sent * routes->result_bytes;
        routes->receive_offsets[rank + 1] =
            routes->receive_offsets[rank] + (size_t)received * routes->result_bytes;
    }
}

enum status expert_routes_place_results(const struct expert_routes *routes, const unsigned char *received,
                                        unsigned char *placed) {
    const struct step_ranks *ranks = routes->step->ranks;
    int64_t first = routes->shares.first[ranks->expert_rank] * routes->picks;
    int64_t end = routes->shares.first[ranks->expert_rank + 1] * routes->picks;
    for (int rank = 0; rank < ranks->expert_rank_count; rank++) {
        for (int64_t pair = first; pair < end; pair++) {
            if (routes->owners[pair] == rank) {
                TRY(copy(routes->step, placed + (size_t)(pair - first) * routes->result_bytes, received,
                         routes->result_bytes));
                received += routes->result_bytes;
            }
        }
    }
    return STATUS_OK;
}

enum status expert_routes_return_results(const struct expert_routes *routes, unsigned char *results,
                                         unsigned char *received, struct comm_flight *flight) {
    const struct step *step = routes->step;
    TRY(pack_results(routes, results));
    count_returns(routes);
    return comm_start_exchange(step->ranks->experts, step->queue->stream, results, routes->send_offsets,
                               received, routes->receive_offsets, flight);
}
