/* The lists of all instruction sets, best first. */
#include "backends/cpu/cpu_kernels.h"

#include <assert.h>

#include "backends/cpu/kernel_lists.h"
#include "ops/reference/reference_table.h"

static const struct kernel_list *const lists[] = {
#if defined(SLUICE_HAS_AMX_BF16)
    &kernels_amx_bf16,
#endif
#if defined(SLUICE_HAS_AVX512_BF16)
    &kernels_avx512_bf16,
#endif
#if defined(__x86_64__)
    &kernels_lanes_avx512,   &kernels_lanes_avx2,
#endif
    &kernels_lanes_portable,
};

size_t cpu_kernels_collect(const struct op_entry **out) {
    size_t total = 0;
    for (size_t l = 0; l <= sizeof lists / sizeof lists[0]; l++) {
        size_t count;
        const struct op_entry *const *entries;
        if (l < sizeof lists / sizeof lists[0]) {
            entries = lists[l]->entries;
            count = lists[l]->count;
        } else {
            entries = reference_entries(&count);
        }
        assert(total + count <= CPU_KERNELS_MAX);
        for (size_t i = 0; i < count; i++) {
            out[total++] = entries[i];
        }
    }
    return total;
}

void cpu_kernels_build_table(enum numerics numerics, unsigned features, struct op_table *out) {
    const struct op_entry *entries[CPU_KERNELS_MAX];
    size_t count = cpu_kernels_collect(entries);
    op_table_build(out, entries, count, 1u << (unsigned)numerics, features);
}
