/* The kernels of this folder, as compiled for LANES_ISA. */
#ifndef SLUICE_BACKENDS_CPU_LANES_LANES_ENTRIES_H
#define SLUICE_BACKENDS_CPU_LANES_LANES_ENTRIES_H

#include "backends/cpu/lanes/lanes.h"
#include "ops/op_queue.h"

/* X(kernel) */
#define LANES_KERNEL_LIST(X) \
    X(add_broadcast)         \
    X(commit_rows)           \
    X(compress_entries)      \
    X(compressor_rows)       \
    X(decode_rows)           \
    X(embedding)             \
    X(encode_rows)           \
    X(grouped_linear)        \
    X(hyper_connection_head) \
    X(hyper_connection_post) \
    X(hyper_connection_pre)  \
    X(indexer_rotate_ideal)  \
    X(indexer_rotate_native) \
    X(indexer_select)        \
    X(linear_ideal)          \
    X(linear_native)         \
    X(moe_combine)           \
    X(moe_experts_ideal)     \
    X(moe_experts_native)    \
    X(rms_norm)              \
    X(rope)                  \
    X(route_experts)         \
    X(sparse_attention)      \
    X(swiglu)

#define X(kernel) extern const struct op_entry LANES_NAME(kernel);
LANES_KERNEL_LIST(X)
#undef X

#endif
