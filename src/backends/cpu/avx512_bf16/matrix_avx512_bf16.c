/* The matrix operations on bf16 dot products. */
#include "backends/cpu/avx512_bf16/avx512_bf16_entries.h"
#include "backends/cpu/avx512_bf16/input_rows.h"
#include "backends/cpu/avx512_bf16/matrix_block.h"
#include "backends/cpu/matrix/matrix_store_lanes.h"

static size_t packed_bytes(int64_t columns) {
    return (size_t)input_row_stride(columns) * sizeof(uint16_t);
}

static void pack(const struct weight *weight, bool rounds, enum dtype dtype, const void *row, void *packed) {
    (void)dtype; /* can_run admits BF16 alone */
    input_row_pack(weight->format, rounds, row, weight->columns, packed);
}

static const struct matrix_kernel kernel = {
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = matrix_block_scratch_bytes,
    .multiply = matrix_block_multiply,
    .gate = matrix_gate_lanes,
    .store = matrix_store_lanes,
};

static bool can_run_linear(const void *arguments) {
    const struct linear_args *args = arguments;
    return args->x.dtype == DTYPE_BF16 && matrix_block_takes(args->weight);
}

static enum status run_linear(const struct kernel_env *env, const void *args) {
    return matrix_linear_run(&kernel, true, env, args);
}

static size_t linear_workspace(const void *args, unsigned thread_count) {
    return matrix_linear_workspace(&kernel, args, thread_count);
}

static bool can_run_grouped(const void *arguments) {
    const struct grouped_linear_args *args = arguments;
    return args->x.dtype == DTYPE_BF16 && matrix_block_takes(args->weight);
}

static enum status run_grouped(const struct kernel_env *env, const void *args) {
    return matrix_grouped_linear_run(&kernel, env, args);
}

static size_t grouped_workspace(const void *args, unsigned thread_count) {
    return matrix_grouped_linear_workspace(&kernel, args, thread_count);
}

static bool can_run_experts(const void *arguments) {
    const struct moe_experts_args *args = arguments;
    return args->x.dtype == DTYPE_BF16 && matrix_block_takes(args->bank->gate) &&
           matrix_block_takes(args->bank->up) && matrix_block_takes(args->bank->down);
}

static enum status run_experts(const struct kernel_env *env, const void *args) {
    return matrix_moe_experts_run(&kernel, true, env, args);
}

static size_t experts_workspace(const void *args, unsigned thread_count) {
    return matrix_moe_experts_workspace(&kernel, args, thread_count);
}

const struct op_entry linear_avx512_bf16 = {.op = OP_LINEAR,
                                            AVX512_BF16_ENTRY(linear),
                                            .modes = OP_MODE_NATIVE,
                                            .run = run_linear,
                                            .workspace_bytes = linear_workspace,
                                            .can_run = can_run_linear};

const struct op_entry grouped_linear_avx512_bf16 = {.op = OP_GROUPED_LINEAR,
                                                    AVX512_BF16_ENTRY(grouped_linear),
                                                    .modes = OP_MODE_NATIVE,
                                                    .run = run_grouped,
                                                    .workspace_bytes = grouped_workspace,
                                                    .can_run = can_run_grouped};

const struct op_entry moe_experts_avx512_bf16 = {.op = OP_MOE_EXPERTS,
                                                 AVX512_BF16_ENTRY(moe_experts),
                                                 .modes = OP_MODE_NATIVE,
                                                 .run = run_experts,
                                                 .workspace_bytes = experts_workspace,
                                                 .can_run = can_run_experts};
