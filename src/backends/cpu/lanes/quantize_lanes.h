/*
 * Activation quantisation on lanes: ACT8 and ACT4 of spec deepseek-v4 2.6, equal to tensor/quantize.h and
 * tensor/number_format.h in every bit.
 *
 * What ACT8 and ACT4 leave of a value is exact in bf16. All functions take any count and any address.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_QUANTIZE_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_QUANTIZE_LANES_H

#include "backends/cpu/lanes/lanes.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

typedef uint8_t u8x16 __attribute__((vector_size(16)));

/* Compiled apart for each constant type: the branch on the type must not stay in the loops. */
#define LANES_INLINE static inline __attribute__((always_inline))

/* Up to sixteen elements from `index`, of which `left` remain; missing lanes read as 0. */
LANES_INLINE f32x16 lanes_read_left(enum dtype dtype, const void *data, int64_t index, int64_t left) {
    return left >= LANES ? lanes_read(dtype, data, index) : lanes_read_part(dtype, data, index, left);
}

LANES_INLINE void lanes_write_left(enum dtype dtype, void *data, int64_t index, int64_t left, f32x16 value) {
    if (left >= LANES) {
        lanes_write(dtype, data, index, value);
    } else {
        lanes_write_part(dtype, data, index, left, value);
    }
}

LANES_INLINE f32x16 lanes_magnitude(f32x16 value) {
    return lanes_from_bits(lanes_bits(value) & 0x7FFFFFFFu);
}

/* max |x[i]| over `count` elements from `first`; a NaN counts as 0. */
LANES_INLINE float lanes_largest_magnitude(enum dtype dtype, const void *x, int64_t first, int64_t count) {
    f32x16 largest = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        /* The comparison fails for a NaN and keeps the second operand. */
        largest = lanes_max(lanes_magnitude(lanes_read_left(dtype, x, first + i, count - i)), largest);
    }
    largest = lanes_max(largest, __builtin_shufflevector(largest, largest, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1,
                                                         2, 3, 4, 5, 6, 7));
    largest = lanes_max(largest, __builtin_shufflevector(largest, largest, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14,
                                                         15, 8, 9, 10, 11));
    largest = lanes_max(largest, __builtin_shufflevector(largest, largest, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8,
                                                         9, 14, 15, 12, 13));
    return largest[0] > largest[1] ? largest[0] : largest[1];
}

/* e4m3_decode(e4m3_encode(x)). */
LANES_INLINE f32x16 lanes_e4m3_round(f32x16 x) {
    u32x16 bits = lanes_bits(x);
    u32x16 magnitude = bits & 0x7FFFFFFFu;
    f32x16 clamped = lanes_min(lanes_from_bits(magnitude), lanes_splat(448.0f));
    u32x16 normal = lanes_bits(clamped);
    normal = (normal + 0x7FFFFu + ((normal >> 20) & 1u)) & 0xFFF00000u;
    /* Below 2^-6 multiples of 2^-9: adding 2^14 rounds to them. */
    f32x16 small = (clamped + 0x1p14f) - 0x1p14f;
    f32x16 rounded = lanes_select(clamped < 0x1p-6f, small, lanes_from_bits(normal));
    rounded = lanes_from_bits(lanes_bits(rounded) | (bits & 0x80000000u));
    return lanes_select(x == x, rounded, lanes_from_bits((u32x16){0} + 0x7FC00000u));
}

/* e4m3_encode(x), one code a lane. */
LANES_INLINE u32x16 lanes_e4m3_encode(f32x16 x) {
    u32x16 bits = lanes_bits(x);
    f32x16 clamped = lanes_min(lanes_from_bits(bits & 0x7FFFFFFFu), lanes_splat(448.0f));
    u32x16 normal = lanes_bits(clamped);
    normal = ((normal + 0x7FFFFu + ((normal >> 20) & 1u)) >> 20) - (120u << 3);
    u32x16 small = lanes_bits(clamped + 0x1p14f) & 0xFFu;
    u32x16 is_small = (u32x16)(clamped < 0x1p-6f);
    u32x16 code = (is_small & small) | (~is_small & normal) | ((bits >> 24) & 0x80u);
    u32x16 is_number = (u32x16)(x == x);
    return (is_number & code) | (~is_number & 0x7Fu);
}

/* e2m1_encode(x), one code a lane. */
LANES_INLINE u32x16 lanes_e2m1_encode(f32x16 x) {
    f32x16 magnitude = lanes_magnitude(x);
    /* Each threshold passed subtracts -1; negated so that a NaN passes all. */
    i32x16 not_passed = (magnitude <= 0.25f) + (magnitude < 0.75f) + (magnitude <= 1.25f) +
                        (magnitude < 1.75f) + (magnitude <= 2.5f) + (magnitude < 3.5f) + (magnitude <= 5.0f);
    return (u32x16)(not_passed + 7) | ((lanes_bits(x) >> 28) & 8u);
}

/* e2m1_decode(e2m1_encode(x)). */
LANES_INLINE f32x16 lanes_e2m1_round(f32x16 x) {
    u32x16 bits = lanes_bits(x);
    /* A NaN becomes 6; adding 2^22 leaves a unit in the last place of 0.5, 2^23 of 1, 2^24 of 2. */
    f32x16 magnitude = lanes_from_bits(bits & 0x7FFFFFFFu);
    f32x16 clamped = lanes_min(magnitude, lanes_splat(6.0f));
    f32x16 halves = (clamped + 0x1p22f) - 0x1p22f;
    f32x16 ones = (clamped + 0x1p23f) - 0x1p23f;
    f32x16 twos = (clamped + 0x1p24f) - 0x1p24f;
    f32x16 rounded = lanes_select(clamped < 2.0f, halves, lanes_select(clamped < 4.0f, ones, twos));
    return lanes_from_bits(lanes_bits(rounded) | (bits & 0x80000000u));
}

LANES_INLINE void lanes_act8_round_typed(enum dtype dtype, const void *x, int64_t count, float *out) {
    for (int64_t first = 0; first < count; first += ACT8_LINEAR_BLOCK) {
        int64_t length = count - first < ACT8_LINEAR_BLOCK ? count - first : ACT8_LINEAR_BLOCK;
        int exponent = act8_scale_exponent(lanes_largest_magnitude(dtype, x, first, length));
        float inverse = f32_power_of_two(-exponent);
        float scale = f32_power_of_two(exponent);
        for (int64_t i = 0; i < length; i += LANES) {
            f32x16 value = lanes_read_left(dtype, x, first + i, length - i);
            lanes_write_left(DTYPE_F32, out, first + i, length - i,
                             lanes_e4m3_round(value * inverse) * scale);
        }
    }
}

/*
 * act8_round of a row of `count` elements (F32 or BF16) in blocks of 128, as floats. `out` may be `x` if that
 * is F32.
 */
static inline void lanes_act8_round_row(enum dtype dtype, const void *x, int64_t count, float *out) {
    if (dtype == DTYPE_F32) {
        lanes_act8_round_typed(DTYPE_F32, x, count, out);
    } else {
        lanes_act8_round_typed(DTYPE_BF16, x, count, out);
    }
}

/* The same from bf16 to bf16, exact. `out` may be `x_bf16`. */
static inline void lanes_act8_round_row_bf16(const void *x_bf16, int64_t count, uint16_t *out) {
    for (int64_t first = 0; first < count; first += ACT8_LINEAR_BLOCK) {
        int64_t length = count - first < ACT8_LINEAR_BLOCK ? count - first : ACT8_LINEAR_BLOCK;
        int exponent = act8_scale_exponent(lanes_largest_magnitude(DTYPE_BF16, x_bf16, first, length));
        float inverse = f32_power_of_two(-exponent);
        float scale = f32_power_of_two(exponent);
        for (int64_t i = 0; i < length; i += LANES) {
            f32x16 value = lanes_read_left(DTYPE_BF16, x_bf16, first + i, length - i);
            u32x16 bits = lanes_bits(lanes_e4m3_round(value * inverse) * scale);
            u16x16 halves = __builtin_convertvector(bits >> 16, u16x16);
            size_t bytes = (size_t)(length - i < LANES ? length - i : LANES) * sizeof *out;
            if (length - i >= LANES) {
                memcpy(out + first + i, &halves, sizeof halves);
            } else {
                memcpy(out + first + i, &halves, bytes);
            }
        }
    }
}

#endif
