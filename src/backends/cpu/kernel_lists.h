/*
 * The list of entries that each instruction set contributes.
 *
 * `lanes` sources are compiled once per instruction set: the same code on vectors of 16 lanes, with the same
 * bits (lanes/lanes.h).
 */
#ifndef SLUICE_BACKENDS_CPU_KERNEL_LISTS_H
#define SLUICE_BACKENDS_CPU_KERNEL_LISTS_H

#include "ops/op_queue.h"

struct kernel_list {
    const struct op_entry *const *entries;
    size_t count;
};

extern const struct kernel_list kernels_lanes_portable;
extern const struct kernel_list kernels_lanes_avx2;
extern const struct kernel_list kernels_lanes_avx512;
extern const struct kernel_list kernels_avx512_bf16;
extern const struct kernel_list kernels_amx_bf16;

#endif
