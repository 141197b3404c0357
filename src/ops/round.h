/*
 * Rounds fp32 values to a smaller type, nearest even: what ends a sum that was made on several ranks.
 *
 * x: F32 (rows, width). out: the same shape, F32 or BF16; may be x only if it is F32. Tolerance: exact.
 */
#ifndef SLUICE_OPS_ROUND_H
#define SLUICE_OPS_ROUND_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct round_args {
    struct tensor out;
    struct tensor x;
};

enum status op_round(struct op_queue *queue, const struct round_args *args);

#endif
