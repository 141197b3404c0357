/*
 * Rows on their way to the ranks of their experts: as what products with quantised weights read of them, so
 * that half of the bytes travel and no bit changes (spec parallelism E-5). Experts with other weights, and
 * numerics without that rounding, get rows as they are.
 *
 * For parallel/ only.
 */
#ifndef SLUICE_PARALLEL_EXPERT_INPUTS_H
#define SLUICE_PARALLEL_EXPERT_INPUTS_H

#include "ops/moe_experts.h"
#include "parallel/step.h"

/* Rows (rows, width) as they travel, in the step arena: bytes (rows, ..) or `x` itself. */
enum status expert_inputs_pack(const struct step *step, const struct expert_weights *bank, struct tensor x,
                               struct tensor *out);

/* What has arrived as activations (rows, `width`), in the step arena if it was packed. */
enum status expert_inputs_unpack(const struct step *step, const struct expert_weights *bank, int64_t width,
                                 struct tensor arrived, struct tensor *out);

/* Bytes of a row of `width` channels on its way to experts with quantised weights. */
size_t expert_input_bytes(enum numerics numerics, int64_t width);

#endif
