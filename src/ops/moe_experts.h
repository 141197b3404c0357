/*
 * Runs each token through its picked experts (spec deepseek-v4 4.11, EXPERT).
 *
 * For each row and slot: a = W1_e x, b = W3_e x (rounded), h = weight * swiglu(a, b) (rounded), out = W2_e h
 * (rounded). The routing weight enters before W2. x: (rows, width), activation type; out: (rows, picks,
 * width), the same type or F32, which is not rounded; one result per (row, slot), summed by moe_combine.
 * experts: I32 (rows, picks), weights: F32. Inputs of quantised weights are rounded as in linear. Bits of a
 * (row, slot) depend on nothing else. Sums over the inner width go by the leaves of `down`, as in linear.
 * Tolerance: NMSE.
 */
#ifndef SLUICE_OPS_MOE_EXPERTS_H
#define SLUICE_OPS_MOE_EXPERTS_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

/*
 * Experts of one layer that follow each other: arrays of `count` weights each, host memory. All of an array
 * are alike. They have the ids from `first` on; results of pairs with another expert are not written.
 */
struct expert_weights {
    const struct weight *gate; /* w1: (inner, width), plain sums */
    const struct weight *up;   /* w3: (inner, width), plain sums */
    const struct weight *down; /* w2: (width, inner) */
    int64_t count;
    int64_t first;
};

struct moe_experts_args {
    struct tensor out;
    struct tensor x;
    struct tensor experts;
    struct tensor weights;
    const struct expert_weights *bank;
    float clamp; /* swiglu_limit */
};

enum status op_moe_experts(struct op_queue *queue, const struct moe_experts_args *args);

#endif
