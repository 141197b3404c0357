/* The kernels on bf16 dot products of AVX-512. */
#include "backends/cpu/avx512_bf16/avx512_bf16_entries.h"
#include "backends/cpu/kernel_lists.h"

static const struct op_entry *const entries[] = {
    &grouped_linear_avx512_bf16, &indexer_select_avx512_bf16,   &linear_avx512_bf16,
    &moe_experts_avx512_bf16,    &sparse_attention_avx512_bf16,
};

const struct kernel_list kernels_avx512_bf16 = {entries, sizeof entries / sizeof entries[0]};
