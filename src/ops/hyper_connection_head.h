/*
 * Collapses the residual streams for the output head (spec deepseek-v4 4.4): gates as in
 * hyper_connection_pre, no mixing matrix.
 *
 * streams: (rows, count, width), out: (rows, width), activation type. mix: PLAIN F32 (count, count * width),
 * base: F32 (1, count), scale: F32 (1, 1). rows: device I32 [out's rows], each below streams' rows: row i of
 * out is of row rows[i] of streams, and the numbers of rows may differ. NULL: row i. Tolerance: NMSE.
 */
#ifndef SLUICE_OPS_HYPER_CONNECTION_HEAD_H
#define SLUICE_OPS_HYPER_CONNECTION_HEAD_H

#include "ops/hyper_connection_pre.h"
#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct hyper_connection_head_args {
    struct tensor out;
    struct tensor streams;
    const int32_t *rows;
    const struct weight *mix;
    const struct weight *base;
    const struct weight *scale;
    float gate_epsilon;
    float norm_epsilon;
};

enum status op_hyper_connection_head(struct op_queue *queue, const struct hyper_connection_head_args *args);

#endif
