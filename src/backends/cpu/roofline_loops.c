/* Chooses loops; one list per instruction set. */
#include "backends/cpu/roofline_loops.h"

#include "backends/cpu/roofline_entries.h"

struct roofline_loops roofline_loops_choose(unsigned features) {
    static const struct roofline_loops *const all[] = {
        &roofline_loops_portable,
#if defined(__x86_64__)
        &roofline_loops_avx2,
        &roofline_loops_avx512,
#endif
#if defined(SLUICE_HAS_AVX512_BF16)
        &roofline_loops_avx512_bf16,
#endif
#if defined(SLUICE_HAS_AMX_BF16)
        &roofline_loops_amx_bf16,
#endif
    };
    struct roofline_loops chosen = *all[0];
    for (size_t i = 1; i < sizeof all / sizeof all[0]; i++) {
        if ((all[i]->features & ~features) != 0) {
            continue;
        }
        if (all[i]->read != NULL) {
            chosen.read = all[i]->read;
            chosen.multiply_f32 = all[i]->multiply_f32;
            chosen.f32_operations = all[i]->f32_operations;
        }
        chosen.multiply_bf16 = all[i]->multiply_bf16;
        chosen.bf16_operations = all[i]->bf16_operations;
        chosen.features |= all[i]->features;
    }
    return chosen;
}
