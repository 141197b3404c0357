/*
 * Walsh-Hadamard transform in natural order: the butterflies of the reference, equal in every bit.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_HADAMARD_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_HADAMARD_LANES_H

#include <math.h>

#include "backends/cpu/lanes/pieces.h"

/* The steps between lanes of one piece, up to distance width / 2. */
LANES_INLINE f32_piece piece_hadamard(f32_piece x, int64_t width) {
    static const uint32_t numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    u32_piece lane;
    memcpy(&lane, numbers, sizeof lane);
#pragma GCC unroll 4
    for (int distance = 1; distance < PIECE_LANES; distance *= 2) {
        /* Partners meet: a + b in the lower lane, a - b in the upper. */
        u32_piece is_upper = (u32_piece)((lane & (uint32_t)distance) != 0u);
        f32_piece turned = (f32_piece)((u32_piece)x ^ (is_upper & 0x80000000u));
        x = distance < width ? piece_swap(x, distance) + turned : x;
    }
    return x;
}

/*
 * Transforms the `width` elements of x from `first` in place, scaled by width^-0.5; width a power of two.
 * `values`: room for as many floats.
 */
LANES_INLINE void lanes_hadamard(enum dtype dtype, void *x, int64_t first, int64_t width, float *values) {
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece value = piece_hadamard(piece_read(dtype, x, first + i, width - i), width);
        piece_write(DTYPE_F32, values, i, width - i, value);
    }
    for (int64_t half = PIECE_LANES; half < width; half *= 2) {
        for (int64_t start = 0; start < width; start += 2 * half) {
            for (int64_t i = start; i < start + half; i += PIECE_LANES) {
                f32_piece a = piece_read(DTYPE_F32, values, i, PIECE_LANES);
                f32_piece b = piece_read(DTYPE_F32, values, i + half, PIECE_LANES);
                piece_write(DTYPE_F32, values, i, PIECE_LANES, a + b);
                piece_write(DTYPE_F32, values, i + half, PIECE_LANES, a - b);
            }
        }
    }
    float scale = (float)(1.0 / sqrt((double)width));
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece value = piece_read(DTYPE_F32, values, i, width - i) * scale;
        piece_write(dtype, x, first + i, width - i, value);
    }
}

#endif
