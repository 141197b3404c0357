/* Numbers of test cases: streams that start from a seed and a place, the same on every machine. */
#ifndef SLUICE_KERNELCHECK_CASE_RANDOM_H
#define SLUICE_KERNELCHECK_CASE_RANDOM_H

#include <stdint.h>

struct case_random {
    uint64_t state;
};

/* One step of SplitMix64. */
static inline uint64_t case_random_next(struct case_random *random) {
    random->state += 0x9E3779B97F4A7C15u;
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The stream of one row of one operand. */
static inline struct case_random case_random_start(uint64_t seed, unsigned operand, int64_t sequence,
                                                   int64_t position) {
    const uint64_t keys[3] = {operand, (uint64_t)sequence, (uint64_t)position};
    struct case_random random = {seed};
    for (int i = 0; i < 3; i++) {
        uint64_t mixed = case_random_next(&random);
        random.state = mixed ^ keys[i];
    }
    return random;
}

/* Uniform in [0, limit). */
static inline int64_t case_random_below(struct case_random *random, int64_t limit) {
    return (int64_t)((case_random_next(random) >> 11) % (uint64_t)limit);
}

/* Uniform in [-1, 1). */
static inline float case_random_unit(struct case_random *random) {
    return (float)(int32_t)(case_random_next(random) >> 32) * 0x1p-31f;
}

#endif
