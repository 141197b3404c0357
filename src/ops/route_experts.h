/*
 * Picks the experts of each token and their weights (spec deepseek-v4 4.11).
 *
 * logits: (rows, experts) F32. s = score(logit). With `table` (PLAIN-free integer table (vocabulary, picks),
 * I64 or I32, unaligned): experts = table[token id]. Otherwise the `picks` largest of s + bias, best first,
 * ties to the lower expert. weights = s / sum of the picked s * scaling: the bias selects only.
 *
 * experts: I32 (rows, picks), weights: F32 (rows, picks). bias: PLAIN F32 (1, experts) or NULL. table.data
 * NULL: route by score. token_ids: device I32 [rows], needed with a table; clamped to its rows. Tolerance:
 * ULP, picks exact.
 */
#ifndef SLUICE_OPS_ROUTE_EXPERTS_H
#define SLUICE_OPS_ROUTE_EXPERTS_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

enum route_score {
    ROUTE_SCORE_SQRT_SOFTPLUS,
    ROUTE_SCORE_SIGMOID,
};

struct route_experts_args {
    struct tensor experts;
    struct tensor weights;
    struct tensor logits;
    const struct weight *bias;
    struct tensor table;
    const int32_t *token_ids;
    enum route_score score;
    float scaling;
};

enum status op_route_experts(struct op_queue *queue, const struct route_experts_args *args);

#endif
