/* Sums over the tensor group, and results of experts from wherever they were computed. */
#include "parallel/collectives.h"

#include "ops/round.h"
#include "parallel/shard.h"

static bool is_alone(const struct step *step) {
    return step->ranks == NULL || comm_size(step->ranks->tensor) == 1;
}

enum dtype parallel_partial_dtype(const struct step *step) {
    return is_alone(step) ? step->activation : DTYPE_F32;
}

static enum status sum_in_place(const struct step *step, const struct tensor *values) {
    if (step->queue->is_dry) {
        return STATUS_OK;
    }
    return comm_sum(step->ranks->tensor, step->queue->stream, values->data, tensor_elements(values));
}

/* `out` may be of any activation type. */
static enum status round_to(const struct step *step, const struct tensor *sum, const struct tensor *out) {
    return op_round(step->queue,
                    &(struct round_args){.out = tensor_as_matrix(out), .x = tensor_as_matrix(sum)});
}

enum status parallel_sum(const struct step *step, struct tensor partial, struct tensor *out) {
    *out = partial;
    if (is_alone(step)) {
        return STATUS_OK;
    }
    TRY(sum_in_place(step, &partial));
    if (step->activation == DTYPE_F32) {
        return STATUS_OK;
    }
    STEP_TENSOR(step, step->activation, out, partial.shape[0], partial.shape[1]);
    return round_to(step, &partial, out);
}

/* Every expert is cut: each rank has a part of every result. */
static enum status sum_experts(const struct step *step, const struct moe_experts_args *args) {
    struct moe_experts_args partial = *args;
    size_t mark = device_arena_mark(step->queue->arena);
    STEP_TENSOR(step, DTYPE_F32, &partial.out, args->out.shape[0], args->out.shape[1], args->out.shape[2]);
    TRY(op_moe_experts(step->queue, &partial));
    TRY(sum_in_place(step, &partial.out));
    TRY(round_to(step, &partial.out, &args->out));
    device_arena_release(step->queue->arena, mark);
    return STATUS_OK;
}

/* Whole experts on several ranks: who computed which (row, slot). */
struct expert_results {
    int32_t *experts; /* host copy of the picks [pairs] */
    size_t *offsets;  /* [ranks + 1] bytes of each rank's results, one behind the other */
    int64_t pairs;
    int64_t expert_count;
    size_t result_bytes;   /* of one */
    unsigned char *packed; /* device: all results, by rank and pair */
};

static int owner_of(const struct expert_results *results, int ranks, int64_t pair) {
    int rank = 0;
    for (int r = 0; r < ranks; r++) {
        struct shard_range range = shard_cut_experts(results->expert_count, r, ranks);
        if (results->experts[pair] >= range.first && results->experts[pair] < range.first + range.count) {
            rank = r;
        }
    }
    return rank;
}

static enum status count_results(const struct step *step, const struct moe_experts_args *args,
                                 struct expert_results *results) {
    int ranks = comm_size(step->ranks->tensor);
    TRY(stream_copy_to_host(step->queue->stream, results->experts, args->experts.data,
                            (size_t)results->pairs * sizeof *results->experts));
    TRY(stream_synchronize(step->queue->stream));
    for (int64_t pair = 0; pair < results->pairs; pair++) {
        results->offsets[owner_of(results, ranks, pair) + 1] += results->result_bytes;
    }
    for (int r = 0; r < ranks; r++) {
        results->offsets[r + 1] += results->offsets[r];
    }
    return STATUS_OK;
}

/* Copies the results of rank `rank` between their places and the packed ones, in order of pairs. */
static enum status move_results(const struct step *step, const struct moe_experts_args *args,
                                const struct expert_results *results, int rank, bool packs) {
    unsigned char *packed = results->packed + results->offsets[rank];
    unsigned char *placed = args->out.data;
    for (int64_t pair = 0; pair < results->pairs; pair++) {
        if (owner_of(results, comm_size(step->ranks->tensor), pair) != rank) {
            continue;
        }
        unsigned char *place = placed + (size_t)pair * results->result_bytes;
        TRY(stream_copy_within(step->queue->stream, packs ? packed : place, packs ? place : packed,
                               results->result_bytes));
        packed += results->result_bytes;
    }
    return STATUS_OK;
}

static enum status exchange_results(const struct step *step, const struct moe_experts_args *args,
                                    const struct expert_results *results) {
    struct comm *comm = step->ranks->tensor;
    int own = comm_rank(comm);
    TRY(move_results(step, args, results, own, true));
    TRY(comm_gather(comm, step->queue->stream, results->packed + results->offsets[own], results->offsets,
                    results->packed));
    for (int rank = 0; rank < comm_size(comm); rank++) {
        if (rank != own) {
            TRY(move_results(step, args, results, rank, false));
        }
    }
    return STATUS_OK;
}

static enum status collect_experts(const struct step *step, const struct moe_experts_args *args,
                                   int64_t expert_count) {
    struct expert_results results = {.pairs = args->experts.shape[0] * args->experts.shape[1],
                                     .expert_count = expert_count,
                                     .result_bytes =
                                         (size_t)args->out.shape[2] * dtype_bytes(args->out.dtype)};
    size_t mark = device_arena_mark(step->queue->arena);
    void *packed;
    TRY(op_moe_experts(step->queue, args));
    TRY(device_arena_alloc(step->queue->arena, (size_t)results.pairs * results.result_bytes, &packed));
    results.packed = packed;
    if (!step->queue->is_dry) {
        results.experts = step->ranks->pair_experts;
        results.offsets = step->ranks->offsets;
        for (int r = 0; r <= comm_size(step->ranks->tensor); r++) {
            results.offsets[r] = 0;
        }
        TRY(count_results(step, args, &results));
        TRY(exchange_results(step, args, &results));
    }
    device_arena_release(step->queue->arena, mark);
    return STATUS_OK;
}

enum status parallel_moe_experts(const struct step *step, const struct moe_experts_args *args,
                                 int64_t expert_count) {
    if (is_alone(step)) {
        return op_moe_experts(step->queue, args);
    }
    return step->ranks->has_expert_parallelism ? collect_experts(step, args, expert_count)
                                               : sum_experts(step, args);
}
