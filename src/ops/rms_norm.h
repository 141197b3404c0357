/*
 * RMS norm over the last axis: out = x / sqrt(mean(x^2) + epsilon) * weight (spec deepseek-v4 0.2).
 *
 * x, out: (..., width), activation type, the same shape; out may be x. weight: PLAIN (1, width), or NULL for
 * none. All in fp32, one final rounding to out's type. Tolerance: ULP.
 */
#ifndef SLUICE_OPS_RMS_NORM_H
#define SLUICE_OPS_RMS_NORM_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct rms_norm_args {
    struct tensor out;
    struct tensor x;
    const struct weight *weight;
    float epsilon;
};

enum status op_rms_norm(struct op_queue *queue, const struct rms_norm_args *args);

#endif
