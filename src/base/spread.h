/*
 * Numbers that are spread evenly and lie in no order, always the same ones.
 */
#ifndef SLUICE_BASE_SPREAD_H
#define SLUICE_BASE_SPREAD_H

#include <stdint.h>

/*
 * Number `index` of a sequence below `count`, which is at most 2^32: Knuth's multiplicative hash by the
 * golden ratio, so that the numbers so far leave no wide gap.
 */
static inline uint32_t spread_number(uint32_t index, uint64_t count) {
    return (uint32_t)((uint64_t)(index * 2654435769u) * count >> 32);
}

#endif
