/*
 * Linear map: out[row] = W x[row] (spec deepseek-v4 2.7: LIN8, LIN4, LINB, LINF).
 *
 * x: (rows, W.columns), activation type or F32. out: (rows, W.rows), F32 or BF16; F32 is not rounded. In
 * native numerics inputs of FP8 and FP4 weights are first rounded by ACT8 in blocks of 128; in ideal
 * numerics never. out may not overlap x. A row's bits do not depend on the other rows. Tolerance: NMSE.
 *
 * The sum over the columns: each leaf of the weight in the order of the kernel's arithmetic, one fp32 number
 * a leaf, these by the tree of tensor/leaves.h in fp32; one rounding, to the type of out. So the columns of
 * some leaves, as a weight of their own, give a node of the tree.
 */
#ifndef SLUICE_OPS_LINEAR_H
#define SLUICE_OPS_LINEAR_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct linear_args {
    struct tensor out;
    struct tensor x;
    const struct weight *weight;
};

enum status op_linear(struct op_queue *queue, const struct linear_args *args);

#endif
