/*
 * out[i] = x[rows[i]].
 *
 * x: (rows, ...), out: (count, ...), the same type and row size. rows: device I32 [count], each below x's
 * rows. Tolerance: exact.
 */
#ifndef SLUICE_OPS_GATHER_ROWS_H
#define SLUICE_OPS_GATHER_ROWS_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct gather_rows_args {
    struct tensor out;
    struct tensor x;
    const int32_t *rows;
};

enum status op_gather_rows(struct op_queue *queue, const struct gather_rows_args *args);

#endif
