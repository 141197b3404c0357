/*
 * Where ranks share the work of a step: what a model asks for by meaning, and one rank gets for nothing.
 *
 * All functions are collective: every rank of the stage calls them in the same order with the same rows. Sums
 * are fp32 and go in the tree that the weights' leaves begin (tensor/leaves.h), so that the bits do not
 * depend on how many ranks there are (spec parallelism 6.1, L1). In a dry run memory is planned and nothing
 * moves.
 */
#ifndef SLUICE_PARALLEL_COLLECTIVES_H
#define SLUICE_PARALLEL_COLLECTIVES_H

#include "ops/moe_experts.h"
#include "parallel/step.h"
#include "tensor/tensor.h"

/* Element type of a product whose columns ranks share: fp32 where a sum is still owed, else activations'. */
enum dtype parallel_partial_dtype(const struct step *step);

/*
 * Collective. Turns partial sums (rows, width) of parallel_partial_dtype into activations that are the same
 * on all ranks; `out` is in the step arena, or `partial` itself on one rank.
 */
enum status parallel_sum(const struct step *step, struct tensor partial, struct tensor *out);

/*
 * Collective. op_moe_experts over experts that lie on several ranks: args->bank holds this rank's experts, or
 * its part of all of them. args->out, of activation type, is complete on all ranks: each result comes from
 * where its expert is (spec parallelism E-9, strict).
 */
enum status parallel_moe_experts(const struct step *step, const struct moe_experts_args *args,
                                 int64_t expert_count);

#endif
