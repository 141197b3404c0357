/*
 * RMS norm of one row: the squares are summed lane-wise, then by the tree.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_NORM_MATH_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_NORM_MATH_LANES_H

#include <math.h>

#include "backends/cpu/lanes/lanes.h"
#include "tensor/weight.h"

/* Lane-wise sums of the squares of `count` elements from `first`: lane i mod 16 sums in order of i. */
LANES_INLINE f32x16 lanes_squares(enum dtype dtype, const void *x, int64_t first, int64_t count) {
    union f32_pieces sums = {{0}};
    for (int64_t i = 0; i < count; i += LANES) {
#pragma GCC unroll 4
        for (int p = 0; p < PIECE_COUNT; p++) {
            int64_t at = i + p * PIECE_LANES;
            if (at < count) {
                f32_piece value = piece_read(dtype, x, first + at, count - at);
                sums.piece[p] += value * value;
            }
        }
    }
    return sums.whole;
}

/*
 * out = x / sqrt(mean(x^2) + epsilon) * weight, `width` elements; one rounding. `weight` is plain or NULL;
 * out may be x.
 */
LANES_INLINE void lanes_norm_row(enum dtype dtype, void *out, const void *x, int64_t width,
                                 const struct weight *weight, float epsilon) {
    float mean = lanes_sum(lanes_squares(dtype, x, 0, width)) / (float)width;
    float factor = 1.0f / sqrtf(mean + epsilon);
    for (int64_t i = 0; i < width; i += PIECE_LANES) {
        f32_piece value = piece_read(dtype, x, i, width - i) * factor;
        if (weight != NULL) {
            value *= piece_read(weight->dtype, weight->data, i, width - i);
        }
        piece_write(dtype, out, i, width - i, value);
    }
}

#endif
