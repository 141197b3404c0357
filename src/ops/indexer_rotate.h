/*
 * Walsh-Hadamard transform of indexer queries, in place (spec deepseek-v4 4.10, HAD).
 *
 * x: (rows, heads, width), activation type, width a power of two and a multiple of 32: y_i = width^-0.5 *
 * sum_j (-1)^popcount(i & j) x_j. In native numerics the result is also rounded by ACT4 in groups of 32, as
 * the keys are. Tolerance: ULP.
 */
#ifndef SLUICE_OPS_INDEXER_ROTATE_H
#define SLUICE_OPS_INDEXER_ROTATE_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct indexer_rotate_args {
    struct tensor x;
};

enum status op_indexer_rotate(struct op_queue *queue, const struct indexer_rotate_args *args);

#endif
