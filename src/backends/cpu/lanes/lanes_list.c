/* The list of this folder's kernels for LANES_ISA: kernels_lanes_portable, _avx2 or _avx512. */
#include "backends/cpu/kernel_lists.h"
#include "backends/cpu/lanes/lanes_entries.h"

static const struct op_entry *const entries[] = {
#define X(kernel) &LANES_NAME(kernel),
    LANES_KERNEL_LIST(X)
#undef X
};

#define LIST_PASTE(isa) kernels_lanes_##isa
#define LIST_NAME(isa) LIST_PASTE(isa)

const struct kernel_list LIST_NAME(LANES_ISA) = {entries, sizeof entries / sizeof entries[0]};
