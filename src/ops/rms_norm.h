/*
 * RMS norm over the last axis: out = x / sqrt(mean(x^2) + epsilon) * weight (spec deepseek-v4 0.2).
 *
 * x, out: (rows, ..., width), activation type, the same shape; out may be x. weight: PLAIN (1, width), or
 * NULL for none. rows: device I32 [out's rows], each below x's rows: row i of out is of row rows[i] of x;
 * then out and x may differ in the number of rows, and out may not be x. NULL: row i. All in fp32, one final
 * rounding to out's type. Tolerance: ULP.
 */
#ifndef SLUICE_OPS_RMS_NORM_H
#define SLUICE_OPS_RMS_NORM_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct rms_norm_args {
    struct tensor out;
    struct tensor x;
    const int32_t *rows;
    const struct weight *weight;
    float epsilon;
};

enum status op_rms_norm(struct op_queue *queue, const struct rms_norm_args *args);

#endif
