/*
 * The matrix operations on AMX tiles.
 *
 * A tile product takes the products of 32 columns, sums those of even and of odd columns in order, and adds
 * both to the sum so far, so that each leaf is the sum over its columns in order. Products commute: it does
 * not matter which operand is the weights, nor what shares a tile.
 */
#include "backends/cpu/amx_bf16/tile_few.h"
#include "backends/cpu/amx_bf16/tile_many.h"
#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/matrix_block.h"
#include "backends/cpu/kernel_lists.h"
#include "backends/cpu/matrix/matrix_entries.h"
#include "backends/cpu/matrix/matrix_store_lanes.h"

static size_t scratch_bytes(int64_t columns) {
    size_t few = tile_few_scratch_bytes(columns);
    size_t many = tile_many_scratch_bytes(columns);
    return few > many ? few : many;
}

static void multiply(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                     int64_t row_count, const void *inputs, int64_t count, void *scratch,
                     const struct matrix_sink *sink) {
    if (count > TILE_FEW_INPUTS ||
        !tile_few_multiply(weight, leaves, first_row, row_count, inputs, count, scratch, sink)) {
        tile_many_multiply(weight, leaves, first_row, row_count, inputs, count, scratch, sink);
    }
}

static const struct matrix_kernel kernel = {
    .packed_bytes = input_row_packed_bytes,
    .pack = input_row_pack_for,
    .scratch_bytes = scratch_bytes,
    .multiply = multiply,
    .gate = matrix_gate_lanes,
    .store = matrix_store_lanes,
};

MATRIX_ENTRIES(amx_bf16, "amx_bf16", CPU_FEATURE_AMX_BF16, &kernel, matrix_block_takes)

static const struct op_entry *const entries[] = {
    &grouped_linear_amx_bf16,
    &linear_amx_bf16,
    &moe_experts_amx_bf16,
};

const struct kernel_list kernels_amx_bf16 = {entries, sizeof entries / sizeof entries[0]};
