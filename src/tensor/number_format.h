/*
 * The number formats of the checkpoints, element by element (spec deepseek-v4, section 2).
 *
 * All conversions work on bits, never through log2f or a numeric cast of a scale byte.
 */
#ifndef SLUICE_TENSOR_NUMBER_FORMAT_H
#define SLUICE_TENSOR_NUMBER_FORMAT_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* bfloat16 (2.1). */
static inline float bf16_decode(uint16_t bits) {
    return f32_from_bits((uint32_t)bits << 16);
}

/* Nearest, ties to even; a NaN stays a NaN. */
static inline uint16_t bf16_encode(float value) {
    uint32_t bits = f32_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? (bits >> 16) | 0x0040u : rounded);
}

/* bf(x) of the spec: the value after rounding to bfloat16. */
static inline float bf16_round(float value) {
    return bf16_decode(bf16_encode(value));
}

/* 2^exponent, exact, for exponents -149..127 (below -126 a subnormal). */
static inline float f32_power_of_two(int exponent) {
    if (exponent < -126) {
        return f32_from_bits(1u << (exponent + 149));
    }
    return f32_from_bits((uint32_t)(exponent + 127) << 23);
}

/* E8M0 scale byte (2.3): 2^(byte-127). 255 is NaN. */
static inline float e8m0_decode(uint8_t byte) {
    if (byte == 255) {
        return f32_from_bits(0x7FC00000u);
    }
    return f32_power_of_two((int)byte - 127);
}

/* FP8 E4M3 without infinities (2.2). 0x7F and 0xFF are NaN. */
static inline float e4m3_decode(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t exponent = (code >> 3) & 15u;
    uint32_t mantissa = code & 7u;
    if ((code & 0x7Fu) == 0x7Fu) {
        return f32_from_bits(0x7FC00000u | sign);
    }
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-9f;
        return f32_from_bits(f32_bits(magnitude) | sign);
    }
    return f32_from_bits(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

/*
 * Nearest, ties to even, after clamping to [-448, 448]. A NaN gives 0x7F. Both ranges are computed and one is
 * selected, so that loops over it become vectors.
 */
static inline uint8_t e4m3_encode(float value) {
    uint32_t bits = f32_bits(value);
    uint32_t sign = (bits >> 24) & 0x80u;
    uint32_t magnitude_bits = bits & 0x7FFFFFFFu;
    uint32_t clamped = magnitude_bits < 0x43E00000u ? magnitude_bits : 0x43E00000u; /* 448 */
    /* Below 2^-6, multiples of 2^-9: adding 2^14 leaves that unit in the last place and rounds to it. */
    uint32_t tiny = f32_bits(f32_from_bits(clamped) + 0x1p14f) & 0xFFu;
    uint32_t normal = ((clamped + 0x7FFFFu + ((clamped >> 20) & 1u)) >> 20) - (120u << 3);
    uint32_t code = clamped < 0x3C800000u ? tiny : normal;
    return (uint8_t)(magnitude_bits > 0x7F800000u ? 0x7Fu : sign | code);
}

/* FP4 E2M1 (2.4): code 0..15, bit 3 is the sign. */
static inline float e2m1_decode(uint8_t code) {
    static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    return values[code & 15u];
}

/* Nearest, ties to the even code, after clamping to [-6, 6]; a NaN gives 6 with its sign. As e4m3_encode. */
static inline uint8_t e2m1_encode(float value) {
    uint32_t bits = f32_bits(value);
    uint32_t magnitude_bits = bits & 0x7FFFFFFFu;
    uint32_t clamped = magnitude_bits < 0x40C00000u ? magnitude_bits : 0x40C00000u; /* 6 */
    /* Below 1, multiples of a half. */
    uint32_t tiny = f32_bits(f32_from_bits(clamped) + 0x1p22f) & 7u;
    uint32_t normal = ((clamped + 0x1FFFFFu + ((clamped >> 22) & 1u)) >> 22) - (126u << 1);
    return (uint8_t)((clamped < 0x3F800000u ? tiny : normal) | ((bits >> 28) & 8u));
}

/* cl2 of the spec (2.6): the smallest e with 2^e >= value, for normal value > 0. */
static inline int f32_ceil_log2(float value) {
    uint32_t bits = f32_bits(value);
    return (int)((bits >> 23) & 255u) - 127 + ((bits & 0x7FFFFFu) != 0);
}

/* Exponent of the scale that ACT8 gives a block whose largest magnitude is `amax` (2.6). */
static inline int act8_scale_exponent(float amax) {
    float floored = amax > 1e-4f ? amax : 1e-4f;
    return f32_ceil_log2(floored * (1.0f / 448.0f));
}

/* The same for ACT4. */
static inline int act4_scale_exponent(float amax) {
    float floored = amax > 0x1.8p-124f ? amax : 0x1.8p-124f; /* 6 * 2^-126 */
    return f32_ceil_log2(floored * (1.0f / 6.0f));
}

#endif
