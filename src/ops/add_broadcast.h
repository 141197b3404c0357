/*
 * out[row][copy] = a[row] + b[row][copy] (spec deepseek-v4 6.1: the embedding added to every stream).
 *
 * a: (rows, width), b, out: (rows, copies, width), activation type; out may be b. fp32 sum, one rounding.
 * Tolerance: exact.
 */
#ifndef SLUICE_OPS_ADD_BROADCAST_H
#define SLUICE_OPS_ADD_BROADCAST_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct add_broadcast_args {
    struct tensor out;
    struct tensor a;
    struct tensor b;
};

enum status op_add_broadcast(struct op_queue *queue, const struct add_broadcast_args *args);

#endif
