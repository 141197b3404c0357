/*
 * RMS norm of one row: the squares are summed lane-wise, then by the tree.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_NORM_MATH_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_NORM_MATH_LANES_H

#include <math.h>

#include "backends/cpu/lanes/quantize_lanes.h"
#include "tensor/weight.h"

/*
 * out = x / sqrt(mean(x^2) + epsilon) * weight for the `width` elements from `first`; one rounding. `weight`
 * is plain or NULL; out may be x.
 */
LANES_INLINE void lanes_norm_row(enum dtype dtype, void *out, const void *x, int64_t first, int64_t width,
                                 const struct weight *weight, float epsilon) {
    struct lanes_running squares = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        f32x16 value = lanes_read_left(dtype, x, first + i, width - i);
        lanes_running_add(&squares, value * value);
    }
    float factor = 1.0f / sqrtf(lanes_sum(lanes_running_value(&squares)) / (float)width + epsilon);
    for (int64_t i = 0; i < width; i += LANES) {
        f32x16 value = lanes_read_left(dtype, x, first + i, width - i) * factor;
        if (weight != NULL) {
            value *= lanes_read_left(weight->dtype, weight->data, i, width - i);
        }
        lanes_write_left(dtype, out, first + i, width - i, value);
    }
}

#endif
