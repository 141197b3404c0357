/*
 * Gated activation with clamps: out = silu(min(gate, clamp)) * clip(up, -clamp, clamp) (spec deepseek-v4
 * 4.11).
 *
 * gate, up, out: (rows, width), activation type; out may be gate. fp32 inside, one rounding. Tolerance: ULP.
 */
#ifndef SLUICE_OPS_SWIGLU_H
#define SLUICE_OPS_SWIGLU_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct swiglu_args {
    struct tensor out;
    struct tensor gate;
    struct tensor up;
    float clamp;
};

enum status op_swiglu(struct op_queue *queue, const struct swiglu_args *args);

#endif
