/*
 * Raw rows of a compressor: what one token contributes to the entries that will cover it (spec deepseek-v4
 * 4.9).
 *
 * values, scores: (rows, width) F32. bias: PLAIN F32 (ratio, width), the learned position bias inside a
 * block. positions: device I32 [rows]. out: F32 (rows, 2 * width): the values, then scores + bias[position
 * mod ratio]. Tolerance: exact.
 */
#ifndef SLUICE_OPS_COMPRESSOR_ROWS_H
#define SLUICE_OPS_COMPRESSOR_ROWS_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct compressor_rows_args {
    struct tensor out;
    struct tensor values;
    struct tensor scores;
    const struct weight *bias;
    const int32_t *positions;
};

enum status op_compressor_rows(struct op_queue *queue, const struct compressor_rows_args *args);

#endif
