/* The matrix operations on bf16 dot products. */
#include "backends/cpu/avx512_bf16/avx512_bf16_entries.h"
#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/matrix_block.h"
#include "backends/cpu/matrix/matrix_entries.h"
#include "backends/cpu/matrix/matrix_store_lanes.h"

static const struct matrix_kernel kernel = {
    .packed_bytes = input_row_packed_bytes,
    .pack = input_row_pack_for,
    .scratch_bytes = matrix_block_scratch_bytes,
    .multiply = matrix_block_multiply,
    .gate = matrix_gate_lanes,
    .store = matrix_store_lanes,
};

MATRIX_ENTRIES(avx512_bf16, "bf16_dot", CPU_FEATURE_AVX512_BF16, &kernel, matrix_block_takes)
