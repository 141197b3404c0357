/*
 * Sums a token's expert results in slot order in fp32, adds the shared expert last, rounds once (spec
 * deepseek-v4 4.11, parallelism E-9 STRICT and E-11).
 *
 * routed: (rows, picks, width), shared: (rows, width), out: (rows, width), activation type; out may be
 * shared. Tolerance: exact.
 */
#ifndef SLUICE_OPS_MOE_COMBINE_H
#define SLUICE_OPS_MOE_COMBINE_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct moe_combine_args {
    struct tensor out;
    struct tensor routed;
    struct tensor shared;
};

enum status op_moe_combine(struct op_queue *queue, const struct moe_combine_args *args);

#endif
