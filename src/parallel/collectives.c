/* Rows between their layouts, by the group's gathers and sums. */
#include "parallel/collectives.h"

#include "ops/round.h"
#include "parallel/collectives_internal.h"

struct gather_group parallel_stage_group(const struct step *step) {
    return (struct gather_group){.comm = step->ranks->tensor, .count = step->ranks->count};
}

void parallel_byte_offsets(const struct row_shares *shares, int ranks, size_t row_bytes, size_t *offsets) {
    for (int rank = 0; rank <= ranks; rank++) {
        offsets[rank] = (size_t)shares->first[rank] * row_bytes;
    }
}

enum status parallel_start_gather(const struct step *step, struct gather_group group,
                                  const struct row_shares *shares, struct tensor own, int64_t count,
                                  struct tensor *out, struct comm_flight *flight) {
    struct tensor whole = own;
    whole.shape[0] = count;
    *flight = (struct comm_flight){NULL};
    TRY(device_arena_alloc(step->queue->arena, tensor_bytes(&whole), &whole.data));
    if (!step->queue->is_dry && count > 0) {
        size_t *offsets = step->ranks->offsets;
        parallel_byte_offsets(shares, group.count, (size_t)tensor_row_elements(&own) * dtype_bytes(own.dtype),
                              offsets);
        TRY(comm_start_gather(group.comm, step->queue->stream, own.data, offsets, whole.data, flight));
    }
    *out = whole;
    return STATUS_OK;
}

enum status parallel_gather_tensor(const struct step *step, struct gather_group group,
                                   const struct row_shares *shares, struct tensor own, int64_t count,
                                   struct tensor *out) {
    struct comm_flight flight;
    TRY(parallel_start_gather(step, group, shares, own, count, out, &flight));
    return comm_finish(group.comm, &flight);
}

enum status parallel_gather_rows(const struct step *step, const struct placed_rows *own,
                                 struct placed_rows *out) {
    TRY(parallel_expect_own(step, own, "gathering rows"));
    *out = (struct placed_rows){.tensor = own->tensor, .layout = ROWS_FULL};
    if (step->shares == NULL) {
        return STATUS_OK;
    }
    return parallel_gather_tensor(step, parallel_stage_group(step), step->shares, own->tensor,
                                  step->batch->row_count, &out->tensor);
}

enum status parallel_shard_rows(const struct step *step, const struct placed_rows *full,
                                struct placed_rows *out) {
    struct shard_range own = parallel_own_range(step);
    TRY(parallel_expect_full(step, full, "dealing out rows"));
    *out = *full;
    if (step->shares != NULL) {
        *out = (struct placed_rows){.tensor = tensor_slice(&full->tensor, own.first, own.count),
                                    .layout = ROWS_SHARD,
                                    .shares = step->shares};
    }
    return STATUS_OK;
}

enum status parallel_rows_for_attention(const struct step *step, int layer, const struct placed_rows *own,
                                        struct placed_rows *out) {
    *out = *own;
    return step->shares != NULL && step->ranks->gathers_late != NULL && step->ranks->gathers_late[layer]
               ? parallel_expect_own(step, own, "rows for attention")
               : parallel_gather_rows(step, own, out);
}

enum status parallel_complete_rows(const struct step *step, const struct placed_rows *rows,
                                   struct tensor *out) {
    struct placed_rows full = *rows;
    TRY(rows->layout == ROWS_FULL ? parallel_expect_full(step, rows, "all rows")
                                  : parallel_gather_rows(step, rows, &full));
    *out = full.tensor;
    return STATUS_OK;
}

enum status parallel_reduce_to_own(const struct step *step, const struct placed_rows *rows,
                                   struct placed_rows *out) {
    if (rows->layout == ROWS_FULL) {
        return parallel_shard_rows(step, rows, out);
    }
    *out = *rows;
    return parallel_expect_own(step, rows, "own rows");
}

enum status parallel_rows_for_product(const struct step *step, const struct weight *last,
                                      const struct placed_rows *own, struct placed_rows *out) {
    *out = *own;
    return leaves_are_cut(&last->leaves) ? parallel_gather_rows(step, own, out)
                                         : parallel_expect_own(step, own, last->name);
}

enum dtype parallel_product_dtype(const struct step *step, const struct weight *weight) {
    return leaves_are_cut(&weight->leaves) ? DTYPE_F32 : step->activation;
}

enum status parallel_tag_product(const struct step *step, const struct weight *weight,
                                 const struct placed_rows *x, struct tensor product,
                                 struct placed_rows *out) {
    *out = placed_rows_like(x, product);
    if (leaves_are_cut(&weight->leaves)) {
        TRY(parallel_expect_full(step, x, weight->name));
        out->layout = ROWS_PARTIAL;
    }
    return STATUS_OK;
}

enum status parallel_round(const struct step *step, const struct tensor *sum, const struct tensor *out) {
    return op_round(step->queue,
                    &(struct round_args){.out = tensor_as_matrix(out), .x = tensor_as_matrix(sum)});
}

enum status parallel_sum_to_own(const struct step *step, struct tensor partial, struct tensor *out) {
    struct shard_range own = parallel_own_range(step);
    float *values = partial.data;
    int64_t width = tensor_row_elements(&partial);
    *out = step->shares == NULL ? partial : tensor_slice(&partial, own.first, own.count);
    if (step->queue->is_dry || step->batch->row_count == 0) {
        return STATUS_OK;
    }
    if (step->shares == NULL) {
        return comm_sum(step->ranks->tensor, step->queue->stream, values, tensor_elements(&partial));
    }
    return comm_sum_scatter(step->ranks->tensor, step->queue->stream, values, step->shares->first, width,
                            out->data);
}

enum status parallel_sum_rows(const struct step *step, const struct placed_rows *product,
                              struct placed_rows *out) {
    struct tensor sum;
    if (product->layout != ROWS_PARTIAL) {
        *out = *product;
        return parallel_expect_own(step, product, "a product without a sum");
    }
    CHECK(product->tensor.shape[0] == step->batch->row_count, STATUS_INTERNAL,
          "a sum over ranks: %lld rows came, the step has %lld", (long long)product->tensor.shape[0],
          (long long)step->batch->row_count);
    TRY(parallel_sum_to_own(step, product->tensor, &sum));
    *out = (struct placed_rows){
        .tensor = sum, .layout = step->shares == NULL ? ROWS_FULL : ROWS_SHARD, .shares = step->shares};
    if (step->activation == DTYPE_F32) {
        return STATUS_OK;
    }
    STEP_TENSOR(step, step->activation, &out->tensor, sum.shape[0], sum.shape[1]);
    return parallel_round(step, &sum, &out->tensor);
}

enum status parallel_gather_picked(const struct step *step, const struct picked_rows *picked,
                                   struct tensor own, struct tensor *out) {
    CHECK(own.shape[0] == picked->own_count, STATUS_INTERNAL, "%lld picked rows came, this rank has %lld",
          (long long)own.shape[0], (long long)picked->own_count);
    *out = own;
    if (picked->shares == NULL) {
        return STATUS_OK;
    }
    return parallel_gather_tensor(step, parallel_stage_group(step), picked->shares, own, picked->count, out);
}
