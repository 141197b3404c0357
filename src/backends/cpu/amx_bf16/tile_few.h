/* Few inputs on AMX tiles: weight rows are tiles as they lie, so that nothing of them is transposed. */
#ifndef SLUICE_BACKENDS_CPU_AMX_BF16_TILE_FEW_H
#define SLUICE_BACKENDS_CPU_AMX_BF16_TILE_FEW_H

#include "backends/cpu/matrix/matrix_kernel.h"

enum { TILE_FEW_INPUTS = 16 };

/* Scratch for weights of `columns`, a multiple of 64. */
size_t tile_few_scratch_bytes(int64_t columns);

/*
 * As matrix_kernel.multiply for 1 to TILE_FEW_INPUTS inputs. False, with nothing handed out, if a row has
 * scales that the fast decoding does not take.
 */
bool tile_few_multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                       int64_t row_count, const void *inputs, int64_t count, void *scratch,
                       const struct matrix_sink *sink);

#endif
