/* The first call does all that needs no waiting, each of the others waits at most once for rows or results.
 */
#include "parallel/expert_trip.h"

#include "parallel/collectives_internal.h"
#include "parallel/expert_inputs.h"

static enum expert_way way_of(const struct step *step) {
    if (step->ranks == NULL || step->ranks->expert_rank_count == 1) {
        return EXPERT_WAY_HERE;
    }
    if (!step->ranks->has_expert_parallelism) {
        return EXPERT_WAY_SUM;
    }
    return step->expert_shares == NULL ? EXPERT_WAY_GATHER : EXPERT_WAY_EXCHANGE;
}

static enum status finish_flight(struct expert_trip *trip) {
    const struct step_ranks *ranks = trip->step->ranks;
    return comm_finish(trip->way == EXPERT_WAY_SUM ? ranks->tensor : ranks->experts, &trip->flight);
}

/*
 * Picks and weights of all ranks of a group, and with `has_rows` their rows, which are then under way; else
 * args.x are the own ones, packed.
 */
static enum status gather_inputs(struct expert_trip *trip, struct gather_group group,
                                 const struct row_shares *shares, bool has_rows) {
    const struct step *step = trip->step;
    int64_t rows = shares->first[group.count];
    TRY(expert_inputs_pack(step, trip->args.bank, trip->args.x, &trip->here.x));
    if (has_rows) {
        TRY(parallel_start_gather(step, group, shares, trip->here.x, rows, &trip->here.x, &trip->flight));
    }
    TRY(parallel_gather_tensor(step, group, shares, trip->args.experts, rows, &trip->here.experts));
    return parallel_gather_tensor(step, group, shares, trip->args.weights, rows, &trip->here.weights);
}

/* Waits for rows that travel and reads them. */
static enum status receive_inputs(struct expert_trip *trip) {
    TRY(finish_flight(trip));
    return expert_inputs_unpack(trip->step, trip->args.bank, trip->args.x.shape[1], trip->here.x,
                                &trip->here.x);
}

static enum status run_parts(struct expert_trip *trip) {
    const struct step *step = trip->step;
    STEP_TENSOR(step, DTYPE_F32, &trip->here.out, step->batch->row_count, trip->args.out.shape[1],
                trip->args.out.shape[2]);
    return op_moe_experts(step->queue, &trip->here);
}

/* Every rank has all rows, or gets them. */
static enum status send_to_parts(struct expert_trip *trip) {
    const struct step *step = trip->step;
    return step->shares == NULL ? run_parts(trip)
                                : gather_inputs(trip, parallel_stage_group(step), step->shares, true);
}

static enum status run_and_gather(struct expert_trip *trip, const struct layer_experts *layer) {
    const struct step *step = trip->step;
    TRY(expert_routes_begin(step, &trip->args, &trip->args.experts, layer, &trip->routes));
    TRY(expert_routes_keep_picks(&trip->routes, &trip->here.experts));
    TRY(op_moe_experts(step->queue, &trip->here));
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&trip->args.out), &trip->received));
    return step->queue->is_dry ? STATUS_OK
                               : expert_routes_gather_results(&trip->routes, trip->args.out.data,
                                                              trip->received, &trip->flight);
}

/* Of rows that every rank of the replica has. */
static void keep_even_share(struct expert_trip *trip) {
    const struct step *step = trip->step;
    struct row_shares shares = row_shares_even(step->batch->row_count, step->ranks->count);
    int rank = step->queue->is_dry ? 0 : step->ranks->rank;
    int64_t first = shares.first[rank];
    int64_t count = shares.first[rank + 1] - first;
    struct moe_experts_args *args = &trip->args;
    trip->all_results = args->out;
    args->x = tensor_slice(&args->x, first, count);
    args->experts = tensor_slice(&args->experts, first, count);
    args->weights = tensor_slice(&args->weights, first, count);
    args->out = tensor_slice(&args->out, first, count);
}

static enum status send_rows(struct expert_trip *trip, const struct layer_experts *layer) {
    const struct step *step = trip->step;
    const struct step_ranks *ranks = step->ranks;
    const struct gather_group group = {.comm = ranks->experts, .count = ranks->expert_rank_count};
    if (step->shares == NULL) {
        keep_even_share(trip);
    }
    TRY(gather_inputs(trip, group, step->expert_shares, ranks->exchange == EXPERT_EXCHANGE_GATHER));
    TRY(expert_routes_begin(step, &trip->args, &trip->here.experts, layer, &trip->routes));
    TRY(expert_routes_keep_picks(&trip->routes, &trip->here.experts));
    return trip->routes.computes_picked_only
               ? expert_routes_send_rows(&trip->routes, &trip->here, &trip->flight)
               : STATUS_OK;
}

enum status parallel_send_to_experts(const struct step *step, const struct placed_rows *rows,
                                     const struct moe_experts_args *args, const struct layer_experts *layer,
                                     struct expert_trip *out) {
    TRY(parallel_expect_own(step, rows, "experts"));
    *out = (struct expert_trip){.step = step, .way = way_of(step), .args = *args, .here = *args};
    switch (out->way) {
    case EXPERT_WAY_HERE:
        return op_moe_experts(step->queue, args);
    case EXPERT_WAY_SUM:
        return send_to_parts(out);
    case EXPERT_WAY_GATHER:
        return run_and_gather(out, layer);
    case EXPERT_WAY_EXCHANGE:
        return send_rows(out, layer);
    }
    return STATUS_OK;
}

static enum status run_and_return(struct expert_trip *trip) {
    const struct step *step = trip->step;
    struct tensor *results = &trip->here.out;
    TRY(receive_inputs(trip));
    results->shape[0] = trip->here.x.shape[0];
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(results), &results->data));
    TRY(op_moe_experts(step->queue, &trip->here));
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&trip->args.out), &trip->received));
    return step->queue->is_dry
               ? STATUS_OK
               : expert_routes_return_results(&trip->routes, results->data, trip->received, &trip->flight);
}

enum status parallel_run_experts(struct expert_trip *trip) {
    if (trip->way == EXPERT_WAY_SUM && trip->step->shares != NULL) {
        TRY(receive_inputs(trip));
        return run_parts(trip);
    }
    return trip->way == EXPERT_WAY_EXCHANGE ? run_and_return(trip) : STATUS_OK;
}

static enum status sum_results(const struct expert_trip *trip) {
    struct tensor sum;
    TRY(parallel_sum_to_own(trip->step, trip->here.out, &sum));
    return parallel_round(trip->step, &sum, &trip->args.out);
}

/* Even shares come together. */
static enum status complete_results(const struct expert_trip *trip) {
    const struct step *step = trip->step;
    const struct step_ranks *ranks = step->ranks;
    const struct tensor *all = &trip->all_results;
    if (step->shares != NULL || ranks->count == 1 || step->batch->row_count == 0) {
        return STATUS_OK;
    }
    struct row_shares shares = row_shares_even(step->batch->row_count, ranks->count);
    parallel_byte_offsets(&shares, ranks->count, (size_t)tensor_row_elements(all) * dtype_bytes(all->dtype),
                          ranks->offsets);
    return comm_gather(ranks->tensor, step->queue->stream, trip->args.out.data, ranks->offsets, all->data);
}

enum status parallel_take_results(struct expert_trip *trip) {
    bool is_dry = trip->step->queue->is_dry;
    if (trip->way == EXPERT_WAY_SUM) {
        return sum_results(trip);
    }
    if (trip->way == EXPERT_WAY_HERE || is_dry) {
        return STATUS_OK;
    }
    TRY(finish_flight(trip));
    if (trip->way == EXPERT_WAY_GATHER) {
        return expert_routes_place_gathered(&trip->routes, trip->args.out.data, trip->received);
    }
    TRY(expert_routes_place_results(&trip->routes, trip->received, trip->args.out.data));
    return complete_results(trip);
}
