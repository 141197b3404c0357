/*
 * All kernels of the CPU backend, in order of preference: the list that tables are built from and that
 * kernelcheck walks.
 */
#ifndef SLUICE_BACKENDS_CPU_CPU_KERNELS_H
#define SLUICE_BACKENDS_CPU_CPU_KERNELS_H

#include "ops/numerics.h"
#include "ops/op_queue.h"

enum { CPU_KERNELS_MAX = 512 };

/* Writes every entry that was compiled in to `out` (room for CPU_KERNELS_MAX), the reference last. */
size_t cpu_kernels_collect(const struct op_entry **out);

/* The table of a mode for a processor with `features` (cpu_features.h). */
void cpu_kernels_build_table(enum numerics numerics, unsigned features, struct op_table *out);

#endif
