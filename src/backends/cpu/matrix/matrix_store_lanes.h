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
    uint16_t halves[LANES];
    if (dtype == DTYPE_F32) {
        return value;
    }
    lanes_store_bf16(halves, value);
    return lanes_load_bf16(halves);
}

/* matrix_kernel.gate. `count` is at most 16. */
static inline void matrix_gate_lanes(const float *gate, const float *up, int64_t count, float clamp,
                                     float routing, enum dtype dtype, void *out) {
    f32x16 limit = lanes_splat(clamp);
    /* The limit first: lanes_min and lanes_max give their second operand for a NaN, which must come through.
     */
    f32x16 a = lanes_min(limit, matrix_round_lanes(dtype, lanes_read_part(DTYPE_F32, gate, 0, count)));
    f32x16 b = matrix_round_lanes(dtype, lanes_read_part(DTYPE_F32, up, 0, count));
    b = lanes_max(-limit, lanes_min(limit, b));
    float values[LANES];
    lanes_store(values, a * lanes_sigmoid(a) * b * routing);
    matrix_store_lanes(dtype, out, 0, count, values);
}

#endif
