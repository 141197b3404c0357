/*
 * Rotation of interleaved pairs: in double with one rounding, as the reference has it.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_ROPE_MATH_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_ROPE_MATH_LANES_H

#include <math.h>

#include "backends/cpu/lanes/quantize_lanes.h"
#include "ops/rope_table.h"

enum { PAIR_LANES = LANES / 2 };

typedef float f32x8 __attribute__((vector_size(32)));
typedef double f64x8 __attribute__((vector_size(64)));

/* Cosines and sines of one position, for all heads. */
struct lanes_rotation {
    double cosine[ROPE_PAIRS_MAX];
    double sine[ROPE_PAIRS_MAX];
};

static inline void lanes_rotation_init(struct lanes_rotation *rotation, const struct rope_table *table,
                                       int64_t position, bool is_inverse) {
    for (int pair = 0; pair < table->pair_count; pair++) {
        /* The angle is the fp32 product by definition; the reduction runs in double. */
        double angle = (double)((float)position * table->frequency[pair]);
        rotation->cosine[pair] = cos(angle);
        rotation->sine[pair] = is_inverse ? -sin(angle) : sin(angle);
    }
    for (int pair = table->pair_count; pair % PAIR_LANES != 0; pair++) {
        rotation->cosine[pair] = 1.0;
        rotation->sine[pair] = 0.0;
    }
}

/* Rotates the pairs that start at element `first` of x, in place. */
LANES_INLINE void lanes_rotate(enum dtype dtype, void *x, int64_t first, int pair_count,
                               const struct lanes_rotation *rotation) {
    for (int pair = 0; pair < pair_count; pair += PAIR_LANES) {
        int64_t left = 2 * (int64_t)(pair_count - pair);
        f32x16 pairs = lanes_read_left(dtype, x, first + 2 * pair, left);
        f64x8 a =
            __builtin_convertvector(__builtin_shufflevector(pairs, pairs, 0, 2, 4, 6, 8, 10, 12, 14), f64x8);
        f64x8 b =
            __builtin_convertvector(__builtin_shufflevector(pairs, pairs, 1, 3, 5, 7, 9, 11, 13, 15), f64x8);
        f64x8 cosine;
        f64x8 sine;
        memcpy(&cosine, rotation->cosine + pair, sizeof cosine);
        memcpy(&sine, rotation->sine + pair, sizeof sine);
        f32x8 even = __builtin_convertvector(a * cosine - b * sine, f32x8);
        f32x8 odd = __builtin_convertvector(a * sine + b * cosine, f32x8);
        lanes_write_left(
            dtype, x, first + 2 * pair, left,
            __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    }
}

#endif
