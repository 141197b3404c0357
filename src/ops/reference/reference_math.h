/*
 * Small pieces that several reference kernels share.
 */
#ifndef SLUICE_OPS_REFERENCE_REFERENCE_MATH_H
#define SLUICE_OPS_REFERENCE_REFERENCE_MATH_H

#include <stddef.h>
#include <stdint.h>

#include "ops/rope_table.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

/* sum a[i] * b[i] in double: eight partial sums by i mod 8, then added in order. */
double reference_dot(const float *a, const float *b, int64_t count);

/* The same in the order of a plan: each leaf in double, rounded to fp32; these are added in fp32. */
float reference_leaf_dot(const struct leaf_plan *leaves, const float *a, const float *b);

double reference_sigmoid(double x);

/* silu(min(gate, clamp)) * clip(up, -clamp, clamp) in fp32 (spec deepseek-v4 4.11). */
float reference_swiglu(float gate, float up, float clamp);

/* Rounds values in place to `dtype` (BF16; F32 leaves them). */
void reference_round(enum dtype dtype, float *values, int64_t count);

/* x / sqrt(mean(x^2) + epsilon) * weight in place, not rounded; weight NULL for none. */
void reference_rms_norm(float *x, const float *weight, int64_t count, float epsilon);

/* Rotates the trailing channels of one head in place, not rounded. */
void reference_rotate(float *head, int64_t width, int64_t position, const struct rope_table *table,
                      int is_inverse);

/* Walsh-Hadamard transform in place, natural order, scaled by width^-0.5. */
void reference_hadamard(float *x, int64_t width);

/* Reads and writes `count` elements of a tensor from element `first`. */
void reference_read(const struct tensor *tensor, int64_t first, int64_t count, float *out);
void reference_write(const struct tensor *tensor, int64_t first, int64_t count, const float *values);

#endif
