/*
 * Writes a sublayer's output back into the residual streams, in place (spec deepseek-v4 4.3):
 * streams[k] = post[k] * branch + sum_j comb[j][k] * streams[j].
 *
 * streams: (rows, count, width), branch: (rows, width), activation type. post: F32 (rows, count), comb: F32
 * (rows, count, count). The sum over j is formed first, in fp32; one rounding. Tolerance: ULP.
 */
#ifndef SLUICE_OPS_HYPER_CONNECTION_POST_H
#define SLUICE_OPS_HYPER_CONNECTION_POST_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"

struct hyper_connection_post_args {
    struct tensor streams;
    struct tensor branch;
    struct tensor post;
    struct tensor comb;
};

enum status op_hyper_connection_post(struct op_queue *queue, const struct hyper_connection_post_args *args);

#endif
