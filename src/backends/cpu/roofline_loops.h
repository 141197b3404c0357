/*
 * Loops that do nothing but load, or multiply and add, as fast as an instruction set can: the limits that
 * kernels are measured against.
 */
#ifndef SLUICE_BACKENDS_CPU_ROOFLINE_LOOPS_H
#define SLUICE_BACKENDS_CPU_ROOFLINE_LOOPS_H

#include <stddef.h>
#include <stdint.h>

struct roofline_loops {
    unsigned features; /* what the processor must have (cpu_features.h) */
    /* A checksum of `bytes` (a multiple of 1024, aligned to 64), loaded once. */
    uint64_t (*read)(const void *memory, size_t bytes);
    /* Multiply-adds on registers; the result only keeps the compiler from dropping them. NULL: not available.
     */
    float (*multiply_f32)(int64_t rounds);
    float (*multiply_bf16)(int64_t rounds);
    double f32_operations; /* of one round */
    double bf16_operations;
};

/* The best loops for a processor with `features`; `read` and `multiply_f32` are always there. */
struct roofline_loops roofline_loops_choose(unsigned features);

#endif
