/*
 * Rotation of interleaved pairs: in double with one rounding, as the reference has it.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_ROPE_MATH_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_ROPE_MATH_LANES_H

#include <math.h>
#include <stdbool.h>

#include "backends/cpu/lanes/pieces.h"
#include "ops/rope_table.h"

/* A piece holds that many pairs. */
enum { PIECE_PAIRS = PIECE_LANES / 2 };

typedef float f32_half_piece __attribute__((vector_size(PIECE_PAIRS * 4)));
typedef double f64_piece __attribute__((vector_size(PIECE_PAIRS * 8)));

#if defined(__AVX512F__)
#define PIECE_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define PIECE_ODD 1, 3, 5, 7, 9, 11, 13, 15
#define PIECE_ZIP 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(__AVX2__)
#define PIECE_EVEN 0, 2, 4, 6
#define PIECE_ODD 1, 3, 5, 7
#define PIECE_ZIP 0, 4, 1, 5, 2, 6, 3, 7
#else
#define PIECE_EVEN 0, 2
#define PIECE_ODD 1, 3
#define PIECE_ZIP 0, 2, 1, 3
#endif

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
    for (int pair = table->pair_count; pair % PIECE_PAIRS != 0; pair++) {
        rotation->cosine[pair] = 1.0;
        rotation->sine[pair] = 0.0;
    }
}

/* Rotates the pairs that start at element `first` of x, in place. */
LANES_INLINE void lanes_rotate(enum dtype dtype, void *x, int64_t first, int pair_count,
                               const struct lanes_rotation *rotation) {
    for (int pair = 0; pair < pair_count; pair += PIECE_PAIRS) {
        int64_t left = 2 * (int64_t)(pair_count - pair);
        f32_piece pairs = piece_read(dtype, x, first + 2 * pair, left);
        f64_piece a = __builtin_convertvector(__builtin_shufflevector(pairs, pairs, PIECE_EVEN), f64_piece);
        f64_piece b = __builtin_convertvector(__builtin_shufflevector(pairs, pairs, PIECE_ODD), f64_piece);
        f64_piece cosine;
        f64_piece sine;
        memcpy(&cosine, rotation->cosine + pair, sizeof cosine);
        memcpy(&sine, rotation->sine + pair, sizeof sine);
        f32_half_piece even = __builtin_convertvector(a * cosine - b * sine, f32_half_piece);
        f32_half_piece odd = __builtin_convertvector(a * sine + b * cosine, f32_half_piece);
        piece_write(dtype, x, first + 2 * pair, left, __builtin_shufflevector(even, odd, PIECE_ZIP));
    }
}

#endif
