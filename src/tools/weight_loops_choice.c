/* The one place that names the instruction sets. */
#include "backends/cpu/cpu_features.h"
#include "tools/weight_loops.h"

const struct weight_loops *weight_loops_choose(void) {
#if defined(__x86_64__)
    unsigned features = cpu_features_detect();
    if ((features & CPU_FEATURE_AVX512) != 0) {
        return &weight_loops_avx512;
    }
    if ((features & CPU_FEATURE_AVX2) != 0) {
        return &weight_loops_avx2;
    }
#endif
    return &weight_loops_portable;
}
