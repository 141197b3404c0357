/* bf16 dot products on registers. */
#include <immintrin.h>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/roofline_entries.h"

enum { CHAINS = 12, LANES = 16, PRODUCTS = 2 };

/* Independent chains, as many as hide the latency of one. */
static float multiply_bf16(int64_t rounds) {
    __m512bh a = (__m512bh)_mm512_set1_epi16(0x3C00); /* 2^-7 */
    __m512bh b = (__m512bh)_mm512_set1_epi16(0x3F00); /* 0.5 */
    __m512 chains[CHAINS];
    for (int k = 0; k < CHAINS; k++) {
        chains[k] = _mm512_set1_ps((float)k);
    }
    for (int64_t i = 0; i < rounds; i++) {
        for (int k = 0; k < CHAINS; k++) {
            chains[k] = _mm512_dpbf16_ps(chains[k], a, b);
        }
    }
    float total = 0.0f;
    for (int k = 0; k < CHAINS; k++) {
        total += _mm512_reduce_add_ps(chains[k]);
    }
    return total;
}

const struct roofline_loops roofline_loops_avx512_bf16 = {
    .features = CPU_FEATURE_AVX512_BF16,
    .multiply_bf16 = multiply_bf16,
    .bf16_operations = 2.0 * CHAINS * LANES * PRODUCTS,
};
