/* The loops of each instruction set. */
#ifndef SLUICE_BACKENDS_CPU_ROOFLINE_ENTRIES_H
#define SLUICE_BACKENDS_CPU_ROOFLINE_ENTRIES_H

#include "backends/cpu/roofline_loops.h"

extern const struct roofline_loops roofline_loops_portable;
extern const struct roofline_loops roofline_loops_avx2;
extern const struct roofline_loops roofline_loops_avx512;
/* Their bf16 loops alone. */
extern const struct roofline_loops roofline_loops_avx512_bf16;
extern const struct roofline_loops roofline_loops_amx_bf16;

#endif
