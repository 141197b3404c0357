/*
 * Activations as the matrix kernels read them: bf16, in the column order of a weight format, padded with
 * zeros to whole chunks (weight_decode.h).
 */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_INPUT_ROWS_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_INPUT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/weight.h"

/* Columns of a packed row: a multiple of 64. */
int64_t input_row_stride(int64_t columns);

/*
 * Packs one bf16 row of `columns` for weights of `format`; with `rounds`, ACT8 in blocks of 128 goes first,
 * whose results are exact in bf16.
 */
void input_row_pack(enum weight_format format, bool rounds, const uint16_t *row, int64_t columns,
                    uint16_t *packed);

/* The same as matrix_kernel.packed_bytes and .pack; the row's type is BF16. */
size_t input_row_packed_bytes(int64_t columns);
void input_row_pack_for(const struct weight *weight, bool rounds, enum dtype dtype, const void *row,
                        void *packed);

#endif
