/*
 * Collapses the residual streams into a sublayer's input, and computes the mixing that
 * hyper_connection_post applies afterwards (spec deepseek-v4 4.2).
 *
 * streams: (rows, count, width), out: (rows, width), activation type. mix: PLAIN F32 ((2 + count) * count,
 * count * width), base: F32 (1, same), scale: F32 (1, 3). post: F32 (rows, count). comb: F32 (rows, count,
 * count), [source][target], doubly stochastic after `sinkhorn_iterations`. All fp32; out rounded once.
 * Tolerance: NMSE.
 */
#ifndef SLUICE_OPS_HYPER_CONNECTION_PRE_H
#define SLUICE_OPS_HYPER_CONNECTION_PRE_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

enum { HYPER_CONNECTION_STREAMS_MAX = 16 };

struct hyper_connection_pre_args {
    struct tensor out;
    struct tensor post;
    struct tensor comb;
    struct tensor streams;
    const struct weight *mix;
    const struct weight *base;
    const struct weight *scale;
    int sinkhorn_iterations;
    float gate_epsilon; /* hc_eps */
    float norm_epsilon; /* rms_norm_eps */
};

enum status op_hyper_connection_pre(struct op_queue *queue, const struct hyper_connection_pre_args *args);

#endif
