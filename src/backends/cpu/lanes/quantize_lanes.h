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

typedef uint8_t u8_piece __attribute__((vector_size(PIECE_LANES)));

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

/* The lowest bytes of the first `left` lanes. */
LANES_INLINE void lanes_store_bytes(unsigned char *to, u32x16 value, int64_t left) {
    union u32_pieces from = {value};
    u8_piece bytes[PIECE_COUNT];
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        bytes[i] = __builtin_convertvector(from.piece[i], u8_piece);
    }
    memcpy(to, bytes, (size_t)(left < LANES ? left : LANES));
}

LANES_INLINE f32x16 lanes_magnitude(f32x16 value) {
    return lanes_from_bits(lanes_bits(value) & 0x7FFFFFFFu);
}

/* max |x[i]| over `count` elements from `first`; a NaN counts as 0. */
LANES_INLINE float lanes_largest_magnitude(enum dtype dtype, const void *x, int64_t first, int64_t count) {
    struct lanes_running running = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        f32x16 magnitude = lanes_magnitude(lanes_read_left(dtype, x, first + i, count - i));
        /* The comparison fails for a NaN and keeps the second operand. */
        lanes_running_set(&running, lanes_max(magnitude, lanes_running_value(&running)));
    }
    f32x16 largest = lanes_running_value(&running);
    largest = lanes_max(largest, lanes_swap_8(largest));
    largest = lanes_max(largest, lanes_swap_4(largest));
    largest = lanes_max(largest, lanes_swap_2(largest));
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
    f32x16 rounded = lanes_select(lanes_less(clamped, lanes_splat(0x1p-6f)), small, lanes_from_bits(normal));
    rounded = lanes_from_bits(lanes_bits(rounded) | (bits & 0x80000000u));
    return lanes_select(lanes_is_nan(x), lanes_from_bits((u32x16){0} + 0x7FC00000u), rounded);
}

/* e4m3_encode(x), one code a lane. */
LANES_INLINE u32x16 lanes_e4m3_encode(f32x16 x) {
    u32x16 bits = lanes_bits(x);
    f32x16 clamped = lanes_min(lanes_from_bits(bits & 0x7FFFFFFFu), lanes_splat(448.0f));
    u32x16 normal = lanes_bits(clamped);
    normal = ((normal + 0x7FFFFu + ((normal >> 20) & 1u)) >> 20) - (120u << 3);
    u32x16 small = lanes_bits(clamped + 0x1p14f) & 0xFFu;
    u32x16 is_small = (u32x16)lanes_less(clamped, lanes_splat(0x1p-6f));
    u32x16 code = (is_small & small) | (~is_small & normal) | ((bits >> 24) & 0x80u);
    u32x16 is_nan = (u32x16)lanes_is_nan(x);
    return (~is_nan & code) | (is_nan & 0x7Fu);
}

/* |e2m1_decode(e2m1_encode(x))| from |x|; a NaN becomes 6. */
LANES_INLINE f32x16 lanes_e2m1_magnitude(f32x16 magnitude) {
    f32x16 clamped = lanes_min(magnitude, lanes_splat(6.0f));
    /* Adding 2^22 leaves a unit in the last place of 0.5, 2^23 of 1, 2^24 of 2. */
    f32x16 halves = (clamped + 0x1p22f) - 0x1p22f;
    f32x16 ones = (clamped + 0x1p23f) - 0x1p23f;
    f32x16 twos = (clamped + 0x1p24f) - 0x1p24f;
    f32x16 upper = lanes_select(lanes_less(clamped, lanes_splat(4.0f)), ones, twos);
    return lanes_select(lanes_less(clamped, lanes_splat(2.0f)), halves, upper);
}

/* e2m1_decode(e2m1_encode(x)). */
LANES_INLINE f32x16 lanes_e2m1_round(f32x16 x) {
    u32x16 bits = lanes_bits(x);
    f32x16 rounded = lanes_e2m1_magnitude(lanes_from_bits(bits & 0x7FFFFFFFu));
    return lanes_from_bits(lanes_bits(rounded) | (bits & 0x80000000u));
}

/* e2m1_encode(x), one code a lane. */
LANES_INLINE u32x16 lanes_e2m1_encode(f32x16 x) {
    u32x16 bits = lanes_bits(x);
    u32x16 rounded = lanes_bits(lanes_e2m1_magnitude(lanes_from_bits(bits & 0x7FFFFFFFu)));
    /* From 1 on exponent and upper mantissa bit make the code; 0 and 0.5 are 0 and 1. */
    u32x16 normal = (rounded >> 22) - (2 * 126);
    u32x16 small = (rounded >> 24) & 1u;
    u32x16 is_small = (u32x16)lanes_less(lanes_from_bits(rounded), lanes_splat(1.0f));
    return (is_small & small) | (~is_small & normal) | ((bits >> 28) & 8u);
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
            uint16_t halves[LANES];
            lanes_store_halves(halves, bits >> 16);
            memcpy(out + first + i, halves, (size_t)(length - i < LANES ? length - i : LANES) * sizeof *out);
        }
    }
}

#endif
