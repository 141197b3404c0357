/* Storing and gating of matrix results on lanes, for kernels on any instruction set. */
#ifndef SLUICE_BACKENDS_CPU_MATRIX_MATRIX_STORE_LANES_H
#define SLUICE_BACKENDS_CPU_MATRIX_MATRIX_STORE_LANES_H

#include "backends/cpu/lanes/lanes.h"

/* matrix_kernel.store. `count` is at most 16. */
static inline void matrix_store_lanes(enum dtype dtype, void *out, int64_t index, int64_t count,
                                      const float *values) {
    if (count == LANES) {
        lanes_write(dtype, out, index, lanes_load(values));
    } else {
        lanes_write_part(dtype, out, index, count, lanes_read_part(DTYPE_F32, values, 0, count));
    }
}

/* A value as it is after rounding to `dtype`. */
static inline f32x16 matrix_round_lanes(enum dtype dtype, f32x16 value) {
    union f32_pieces pieces = {value};
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT && dtype != DTYPE_F32; i++) {
        pieces.piece[i] = piece_widen(piece_narrow(pieces.piece[i]));
    }
    return pieces.whole;
}

static inline f32x16 matrix_gated_lanes(f32x16 gate, f32x16 up, float clamp, float routing) {
    f32x16 limit = lanes_splat(clamp);
    /* The limit first: lanes_min and lanes_max give their second operand for a NaN, which must come through.
     */
    f32x16 a = lanes_min(limit, gate);
    f32x16 b = lanes_max(-limit, lanes_min(limit, up));
    return a * lanes_sigmoid(a) * b * routing;
}

/* matrix_kernel.gate. `count` is at most 16. */
static inline void matrix_gate_lanes(const float *gate, const float *up, int64_t count, float clamp,
                                     float routing, enum dtype dtype, void *out) {
    if (count == LANES) {
        f32x16 a = matrix_round_lanes(dtype, lanes_load(gate));
        f32x16 b = matrix_round_lanes(dtype, lanes_load(up));
        lanes_write(dtype, out, 0, matrix_gated_lanes(a, b, clamp, routing));
    } else {
        f32x16 a = matrix_round_lanes(dtype, lanes_read_part(DTYPE_F32, gate, 0, count));
        f32x16 b = matrix_round_lanes(dtype, lanes_read_part(DTYPE_F32, up, 0, count));
        lanes_write_part(dtype, out, 0, count, matrix_gated_lanes(a, b, clamp, routing));
    }
}

#endif
