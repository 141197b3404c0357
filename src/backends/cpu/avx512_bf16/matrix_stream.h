/*
 * A few inputs times weight rows that are decoded in registers, at the speed of the memory: the decode half
 * of matrix_block.c.
 */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_MATRIX_STREAM_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_MATRIX_STREAM_H

#include "backends/cpu/avx512_bf16/matrix_rows.h"

/*
 * The block's scaled_inputs = inputs times the scales of FP8 rows first_row .. last_row, which must lie in
 * one block of 128 rows: products are the same as with scaled weights. False if they do not, or if a product
 * of an input and a scale leaves the normal numbers of bf16.
 */
bool matrix_stream_scale(const struct weight_block *block, int64_t first_row, int64_t last_row,
                         const uint16_t *inputs, int64_t count);

/*
 * At most MATRIX_BLOCK_ROWS rows from first_row times at most STREAM_INPUTS inputs, which for FP8 are scaled
 * already. False, with nothing handed out, if a row has scales that the fast decoding does not take.
 */
bool matrix_stream_multiply(const struct weight_block *block, int64_t first_row, int64_t row_count,
                            const uint16_t *inputs, int64_t count, const struct matrix_sink *sink);

#endif
