/*
 * Loads and fp32 multiply-adds on the vectors of ROOFLINE_ISA, compiled once per instruction set and with
 * contraction allowed: the limit is what the processor can do, not what keeps bits equal.
 */
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/roofline_entries.h"

enum { CHAINS = 10, LANES = ROOFLINE_VECTOR_BYTES / 4, LOADS = 8 };

typedef float vector __attribute__((vector_size(ROOFLINE_VECTOR_BYTES)));
typedef uint64_t words __attribute__((vector_size(ROOFLINE_VECTOR_BYTES)));

static uint64_t read_memory(const void *memory, size_t bytes) {
    const words *from = memory;
    words sums[LOADS] = {{0}};
    for (size_t i = 0; i < bytes / sizeof(words); i += LOADS) {
        for (int k = 0; k < LOADS; k++) {
            sums[k] += from[i + (size_t)k];
        }
    }
    uint64_t total = 0;
    for (int k = 0; k < LOADS; k++) {
        for (size_t lane = 0; lane < sizeof(words) / sizeof(uint64_t); lane++) {
            total += sums[k][lane];
        }
    }
    return total;
}

/* Independent chains, as many as hide the latency of one. */
static float multiply_f32(int64_t rounds) {
    vector factor = (vector){0} + 0.999f;
    vector summand = (vector){0} + 0.001f;
    vector chains[CHAINS];
    for (int k = 0; k < CHAINS; k++) {
        chains[k] = (vector){0} + (float)k;
    }
    for (int64_t i = 0; i < rounds; i++) {
        for (int k = 0; k < CHAINS; k++) {
            chains[k] = chains[k] * factor + summand;
        }
    }
    float total = 0.0f;
    for (int k = 0; k < CHAINS; k++) {
        for (int lane = 0; lane < LANES; lane++) {
            total += chains[k][lane];
        }
    }
    return total;
}

#define LOOPS_PASTE(isa) roofline_loops_##isa
#define LOOPS_NAME(isa) LOOPS_PASTE(isa)

const struct roofline_loops LOOPS_NAME(ROOFLINE_ISA) = {
    .features = ROOFLINE_FEATURES,
    .read = read_memory,
    .multiply_f32 = multiply_f32,
    .f32_operations = 2.0 * CHAINS * LANES,
};
