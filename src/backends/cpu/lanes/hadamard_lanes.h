/*
 * Walsh-Hadamard transform in natural order: the butterflies of the reference, equal in every bit.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_HADAMARD_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_HADAMARD_LANES_H

#include <math.h>

#include "backends/cpu/lanes/quantize_lanes.h"

/* Partners meet: a + b in the lower lane, a - b in the upper, whose sign bit `upper` marks. */
LANES_INLINE f32x16 lanes_butterfly(f32x16 x, f32x16 partner, u32x16 upper) {
    return partner + lanes_from_bits(lanes_bits(x) ^ upper);
}

/* The steps between lanes of one vector, up to distance width / 2. */
LANES_INLINE f32x16 lanes_hadamard_inside(f32x16 x, int64_t width) {
    const uint32_t s = 0x80000000u;
    if (width >= 2) {
        x = lanes_butterfly(x, lanes_swap_1(x), (u32x16){0, s, 0, s, 0, s, 0, s, 0, s, 0, s, 0, s, 0, s});
    }
    if (width >= 4) {
        x = lanes_butterfly(x, lanes_swap_2(x), (u32x16){0, 0, s, s, 0, 0, s, s, 0, 0, s, s, 0, 0, s, s});
    }
    if (width >= 8) {
        x = lanes_butterfly(x, lanes_swap_4(x), (u32x16){0, 0, 0, 0, s, s, s, s, 0, 0, 0, 0, s, s, s, s});
    }
    if (width >= 16) {
        x = lanes_butterfly(x, lanes_swap_8(x), (u32x16){0, 0, 0, 0, 0, 0, 0, 0, s, s, s, s, s, s, s, s});
    }
    return x;
}

/*
 * Transforms the `width` elements of x from `first` in place, scaled by width^-0.5; width a power of two.
 * `values`: room for as many floats.
 */
LANES_INLINE void lanes_hadamard(enum dtype dtype, void *x, int64_t first, int64_t width, float *values) {
    for (int64_t i = 0; i < width; i += LANES) {
        f32x16 value = lanes_read_left(dtype, x, first + i, width - i);
        lanes_write_left(DTYPE_F32, values, i, width - i, lanes_hadamard_inside(value, width));
    }
    for (int64_t half = LANES; half < width; half *= 2) {
        for (int64_t start = 0; start < width; start += 2 * half) {
            for (int64_t i = start; i < start + half; i += LANES) {
                f32x16 a = lanes_load(values + i);
                f32x16 b = lanes_load(values + i + half);
                lanes_store(values + i, a + b);
                lanes_store(values + i + half, a - b);
            }
        }
    }
    float scale = (float)(1.0 / sqrt((double)width));
    for (int64_t i = 0; i < width; i += LANES) {
        f32x16 value = lanes_read_left(DTYPE_F32, values, i, width - i);
        lanes_write_left(dtype, x, first + i, width - i, value * scale);
    }
}

#endif
