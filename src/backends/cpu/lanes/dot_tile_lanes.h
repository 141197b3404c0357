/*
 * Sixteen dot products at once: four vectors with four others. For each, lane i mod 16 sums the products in
 * order of i, then the lanes are summed as by lanes_sum.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_DOT_TILE_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_DOT_TILE_LANES_H

#include "backends/cpu/lanes/lanes.h"

enum {
    DOT_SIDE = 4, /* vectors on each side */
#if defined(__AVX512F__)
    TILE_B = 4, /* vectors of b that meet the four of a: as many sums as there are registers for */
#else
    TILE_B = 2,
#endif
};

/* Four results: those of one a with the four b. */
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));

/*
 * Of a[i] . b[j], for the four of a and TILE_B of b from `first_b`, the lanes of the piece that begins at
 * `first_lane`: to sums[i][j].
 */
static inline void dot_piece(const float *const *a, const float *const *b, int first_b, int first_lane,
                             int64_t count, float (*sums)[DOT_SIDE][LANES]) {
    f32_piece partial[DOT_SIDE * TILE_B];
#pragma GCC unroll 16
    for (int i = 0; i < DOT_SIDE * TILE_B; i++) {
        partial[i] = (f32_piece){0};
    }
    for (int64_t c = first_lane; c < count; c += LANES) {
        f32_piece y[TILE_B];
#pragma GCC unroll 4
        for (int j = 0; j < TILE_B; j++) {
            y[j] = piece_load(b[first_b + j] + c);
        }
#pragma GCC unroll 4
        for (int i = 0; i < DOT_SIDE; i++) {
            f32_piece x = piece_load(a[i] + c);
#pragma GCC unroll 4
            for (int j = 0; j < TILE_B; j++) {
                partial[i * TILE_B + j] += x * y[j];
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < DOT_SIDE * TILE_B; i++) {
        piece_store(sums[i / TILE_B][first_b + i % TILE_B] + first_lane, partial[i]);
    }
}

#ifndef __AVX512F__
static inline f32x4 f32x4_load(const float *from) {
    f32x4 value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline f32x4 f32x4_pair_sums(f32x4 a, f32x4 b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

/* lanes_sum of four vectors, by the same tree: on quarters, whose shuffles cost least. */
static inline f32x4 dot_sum_four(float (*sums)[LANES]) {
    f32x4 each[DOT_SIDE];
#pragma GCC unroll 4
    for (int j = 0; j < DOT_SIDE; j++) {
        f32x4 low = f32x4_pair_sums(f32x4_load(sums[j]), f32x4_load(sums[j] + 4));
        f32x4 high = f32x4_pair_sums(f32x4_load(sums[j] + 8), f32x4_load(sums[j] + 12));
        each[j] = f32x4_pair_sums(low, high);
    }
    return f32x4_pair_sums(f32x4_pair_sums(each[0], each[1]), f32x4_pair_sums(each[2], each[3]));
}
#endif

/* Lane j of out[i] is a[i] . b[j]. count: a multiple of LANES. */
static inline void lanes_dot_tile(const float *const *a, const float *const *b, int64_t count, f32x4 *out) {
    float sums[DOT_SIDE][DOT_SIDE][LANES];
    for (int j = 0; j < DOT_SIDE; j += TILE_B) {
        for (int lane = 0; lane < LANES; lane += PIECE_LANES) {
            dot_piece(a, b, j, lane, count, sums);
        }
    }
#ifdef __AVX512F__
    f32x16 each[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        each[i] = lanes_load(sums[i / DOT_SIDE][i % DOT_SIDE]);
    }
    f32x16 all = lanes_sum_each(each);
    memcpy(out, &all, sizeof all);
#else
    for (int i = 0; i < DOT_SIDE; i++) {
        out[i] = dot_sum_four(sums[i]);
    }
#endif
}

#endif
