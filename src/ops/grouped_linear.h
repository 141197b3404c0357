/*
 * Block-diagonal linear map: out[row][g] = W_g x[row][g] (spec deepseek-v4 4.8, the output projection's
 * first half).
 *
 * x: (rows, groups, columns), out: (rows, groups, rank), activation type. W: (groups * rank, columns); rows
 * g * rank .. of W belong to group g. Inputs are never quantised: the weight counts as bf16 whatever its
 * storage; sums are plain. Tolerance: NMSE.
 */
#ifndef SLUICE_OPS_GROUPED_LINEAR_H
#define SLUICE_OPS_GROUPED_LINEAR_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct grouped_linear_args {
    struct tensor out;
    struct tensor x;
    const struct weight *weight;
};

enum status op_grouped_linear(struct op_queue *queue, const struct grouped_linear_args *args);

#endif
