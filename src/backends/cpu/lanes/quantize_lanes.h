/*
 * Activation quantisation on lanes: ACT8 and ACT4 of spec deepseek-v4 2.6, equal to tensor/quantize.h and
 * tensor/number_format.h in every bit.
 *
 * What ACT8 and ACT4 leave of a value is exact in bf16. All functions take any count and any address.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_QUANTIZE_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_QUANTIZE_LANES_H

#include "backends/cpu/lanes/pieces.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

/* max |x[i]| over `count` elements from `first`; a NaN counts as 0. */
LANES_INLINE float lanes_largest_magnitude(enum dtype dtype, const void *x, int64_t first, int64_t count) {
    f32_piece largest = {0};
    for (int64_t i = 0; i < count; i += PIECE_LANES) {
        /* The comparison fails for a NaN and keeps the second operand. */
        largest = piece_max(piece_magnitude(piece_read(dtype, x, first + i, count - i)), largest);
    }
    return piece_largest(largest);
}

/* e4m3_decode(e4m3_encode(x)). */
LANES_INLINE f32_piece piece_e4m3_round(f32_piece x) {
    u32_piece bits = (u32_piece)x;
    f32_piece clamped = piece_min(piece_magnitude(x), piece_splat(448.0f));
    u32_piece normal = (u32_piece)clamped;
    normal = (normal + 0x7FFFFu + ((normal >> 20) & 1u)) & 0xFFF00000u;
    /* Below 2^-6 multiples of 2^-9: adding 2^14 rounds to them. */
    f32_piece small = (clamped + 0x1p14f) - 0x1p14f;
    f32_piece rounded = piece_select(clamped < 0x1p-6f, small, (f32_piece)normal);
    rounded = (f32_piece)((u32_piece)rounded | (bits & 0x80000000u));
    return piece_select(x == x, rounded, (f32_piece)((u32_piece){0} + 0x7FC00000u));
}

/* e4m3_encode(x), one code a lane. */
LANES_INLINE u32_piece piece_e4m3_encode(f32_piece x) {
    u32_piece bits = (u32_piece)x;
    f32_piece clamped = piece_min(piece_magnitude(x), piece_splat(448.0f));
    u32_piece normal = (u32_piece)clamped;
    normal = ((normal + 0x7FFFFu + ((normal >> 20) & 1u)) >> 20) - (120u << 3);
    u32_piece small = (u32_piece)(clamped + 0x1p14f) & 0xFFu;
    u32_piece is_small = (u32_piece)(clamped < 0x1p-6f);
    u32_piece code = (is_small & small) | (~is_small & normal) | ((bits >> 24) & 0x80u);
    u32_piece is_number = (u32_piece)(x == x);
    return (is_number & code) | (~is_number & 0x7Fu);
}

/* |e2m1_decode(e2m1_encode(x))| from |x|; a NaN becomes 6. */
LANES_INLINE f32_piece piece_e2m1_magnitude(f32_piece magnitude) {
    f32_piece clamped = piece_min(magnitude, piece_splat(6.0f));
    /* Adding 2^22 leaves a unit in the last place of 0.5, 2^23 of 1, 2^24 of 2. */
    f32_piece halves = (clamped + 0x1p22f) - 0x1p22f;
    f32_piece ones = (clamped + 0x1p23f) - 0x1p23f;
    f32_piece twos = (clamped + 0x1p24f) - 0x1p24f;
    return piece_select(clamped < 2.0f, halves, piece_select(clamped < 4.0f, ones, twos));
}

/* e2m1_decode(e2m1_encode(x)). */
LANES_INLINE f32_piece piece_e2m1_round(f32_piece x) {
    u32_piece rounded = (u32_piece)piece_e2m1_magnitude(piece_magnitude(x));
    return (f32_piece)(rounded | ((u32_piece)x & 0x80000000u));
}

/* e2m1_encode(x), one code a lane. */
LANES_INLINE u32_piece piece_e2m1_encode(f32_piece x) {
    f32_piece rounded = piece_e2m1_magnitude(piece_magnitude(x));
    /* From 1 on exponent and upper mantissa bit make the code; 0 and 0.5 are 0 and 1. */
    u32_piece normal = ((u32_piece)rounded >> 22) - (2 * 126);
    u32_piece small = ((u32_piece)rounded >> 24) & 1u;
    u32_piece is_small = (u32_piece)(rounded < 1.0f);
    return (is_small & small) | (~is_small & normal) | (((u32_piece)x >> 28) & 8u);
}

LANES_INLINE void lanes_act8_round_typed(enum dtype dtype, const void *x, int64_t count, enum dtype out_dtype,
                                         void *out) {
    for (int64_t first = 0; first < count; first += ACT8_LINEAR_BLOCK) {
        int64_t length = count - first < ACT8_LINEAR_BLOCK ? count - first : ACT8_LINEAR_BLOCK;
        int exponent = act8_scale_exponent(lanes_largest_magnitude(dtype, x, first, length));
        float inverse = f32_power_of_two(-exponent);
        float scale = f32_power_of_two(exponent);
        for (int64_t i = 0; i < length; i += PIECE_LANES) {
            f32_piece value = piece_read(dtype, x, first + i, length - i);
            piece_write(out_dtype, out, first + i, length - i, piece_e4m3_round(value * inverse) * scale);
        }
    }
}

/*
 * act8_round of a row of `count` elements (F32 or BF16) in blocks of 128, as floats. `out` may be `x` if that
 * is F32.
 */
static inline void lanes_act8_round_row(enum dtype dtype, const void *x, int64_t count, float *out) {
    if (dtype == DTYPE_F32) {
        lanes_act8_round_typed(DTYPE_F32, x, count, DTYPE_F32, out);
    } else {
        lanes_act8_round_typed(DTYPE_BF16, x, count, DTYPE_F32, out);
    }
}

/* The same from bf16 to bf16, exact. `out` may be `x_bf16`. */
static inline void lanes_act8_round_row_bf16(const void *x_bf16, int64_t count, uint16_t *out) {
    lanes_act8_round_typed(DTYPE_BF16, x_bf16, count, DTYPE_BF16, out);
}

#endif
