/* Many inputs on AMX tiles: inputs are tiles as they lie, a block of weight rows is transposed once for all.
 */
#ifndef SLUICE_BACKENDS_CPU_AMX_BF16_TILE_MANY_H
#define SLUICE_BACKENDS_CPU_AMX_BF16_TILE_MANY_H

#include "backends/cpu/matrix/matrix_kernel.h"

/* Scratch for weights of `columns`, a multiple of 64. */
size_t tile_many_scratch_bytes(int64_t columns);

/* As matrix_kernel.multiply. */
void tile_many_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                        int64_t row_count, const void *inputs, int64_t count, void *scratch,
                        const struct matrix_sink *sink);

#endif
