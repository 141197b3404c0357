/*
 * A block of weight rows times packed inputs: the inner part of every matrix kernel on bf16 dot products.
 *
 * For each (input, row) and leaf sixteen fp32 lanes sum the bf16 products of the chunks in order, two columns
 * a lane and step (vdpbf16ps); the lanes are summed by the adjacent binary tree, the leaves by their plan.
 * That is the whole definition of a result: it does not depend on how many inputs there are, nor on whether
 * the weights were decoded into registers (few inputs) or into a panel in the L2 cache (many).
 */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_MATRIX_BLOCK_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_MATRIX_BLOCK_H

#include "backends/cpu/matrix/matrix_kernel.h"

/* Whether the kernels take the weight: bf16, or FP8 and FP4 with E8M0 scales. */
bool matrix_block_takes(const struct weight *weight);

/* As matrix_kernel.scratch_bytes and .multiply; inputs are packed by input_row_pack. */
size_t matrix_block_scratch_bytes(int64_t columns);
void matrix_block_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                           int64_t row_count, const void *inputs, int64_t count, void *scratch,
                           const struct matrix_sink *sink);

/*
 * Decodes rows first_row.. (at most MATRIX_BLOCK_ROWS) to bf16 in the column order of the weight's format:
 * (rows rounded up to 16, input_row_stride) at the start of `scratch`, padding rows and columns zero. For
 * kernels that multiply in another way.
 */
const uint16_t *matrix_block_decode(const struct weight *weight, int64_t first_row, int64_t row_count,
                                    void *scratch);

#endif
