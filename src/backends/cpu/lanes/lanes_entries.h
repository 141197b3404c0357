/* The kernels of this folder, as compiled for LANES_ISA. */
#ifndef SLUICE_BACKENDS_CPU_LANES_LANES_ENTRIES_H
#define SLUICE_BACKENDS_CPU_LANES_LANES_ENTRIES_H

#include "backends/cpu/lanes/lanes.h"
#include "ops/op_queue.h"

/* X(kernel) */
#define LANES_KERNEL_LIST(X) \
    X(grouped_linear)        \
    X(linear_ideal)          \
    X(linear_native)         \
    X(moe_experts_ideal)     \
    X(moe_experts_native)    \
    X(rms_norm)              \
    X(sparse_attention)

#define X(kernel) extern const struct op_entry LANES_NAME(kernel);
LANES_KERNEL_LIST(X)
#undef X

#endif
