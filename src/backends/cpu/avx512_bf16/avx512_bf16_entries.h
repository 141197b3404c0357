/* The kernels of this folder. */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_AVX512_BF16_ENTRIES_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_AVX512_BF16_ENTRIES_H

#include "backends/cpu/cpu_features.h"
#include "ops/op_queue.h"

/* What op_entry needs: .name, .arithmetic and .features of a kernel in this folder. */
#define AVX512_BF16_ENTRY(kernel) \
    .name = #kernel "_avx512_bf16", .arithmetic = "bf16_dot", .features = CPU_FEATURE_AVX512_BF16

extern const struct op_entry grouped_linear_avx512_bf16;
extern const struct op_entry indexer_select_avx512_bf16;
extern const struct op_entry linear_avx512_bf16;
extern const struct op_entry moe_experts_avx512_bf16;
extern const struct op_entry sparse_attention_avx512_bf16;

#endif
