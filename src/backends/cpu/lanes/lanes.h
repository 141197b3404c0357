/*
 * Sixteen fp32 lanes: the arithmetic of the `lanes` kernels.
 *
 * Kernels in this folder are written once on these vectors and compiled once per instruction set (LANES_ISA
 * is portable, avx2 or avx512). All steps are lane-wise IEEE operations in a fixed order, never contracted to
 * fused multiply-adds, so that every instruction set gives the same bits: one arithmetic id, "lanes".
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/cpu_features.h"
#include "tensor/dtype.h"

enum { LANES = 16 };

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

/* Symbols of one instruction set: LANES_NAME(rms_norm) is rms_norm_lanes_avx2. */
#define LANES_PASTE(name, isa) name##_lanes_##isa
#define LANES_PASTE_EXPANDED(name, isa) LANES_PASTE(name, isa)
#define LANES_NAME(name) LANES_PASTE_EXPANDED(name, LANES_ISA)
#define LANES_TEXT(name, isa) #name "_lanes_" #isa
#define LANES_TEXT_EXPANDED(name, isa) LANES_TEXT(name, isa)

/* What op_entry needs: .name, .arithmetic and .features of a kernel in this folder. */
#define LANES_ENTRY(kernel) \
    .name = LANES_TEXT_EXPANDED(kernel, LANES_ISA), .arithmetic = "lanes", .features = LANES_FEATURES

static inline f32x16 lanes_splat(float value) {
    return (f32x16){0} + value;
}

/* Addresses need no alignment. */
static inline f32x16 lanes_load(const float *from) {
    f32x16 value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void lanes_store(float *to, f32x16 value) {
    memcpy(to, &value, sizeof value);
}

static inline u32x16 lanes_bits(f32x16 value) {
    u32x16 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline f32x16 lanes_from_bits(u32x16 bits) {
    f32x16 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Where `mask` is all ones a, elsewhere b. */
static inline f32x16 lanes_select(i32x16 mask, f32x16 a, f32x16 b) {
    u32x16 chosen = ((u32x16)mask & lanes_bits(a)) | (~(u32x16)mask & lanes_bits(b));
    return lanes_from_bits(chosen);
}

static inline f32x16 lanes_max(f32x16 a, f32x16 b) {
    return lanes_select(a > b, a, b);
}

static inline f32x16 lanes_min(f32x16 a, f32x16 b) {
    return lanes_select(a < b, a, b);
}

static inline f32x16 lanes_load_bf16(const void *from) {
    u16x16 halves;
    memcpy(&halves, from, sizeof halves);
    return lanes_from_bits(__builtin_convertvector(halves, u32x16) << 16);
}

/* Nearest, ties to even. A NaN stays a NaN. */
static inline void lanes_store_bf16(void *to, f32x16 value) {
    u32x16 bits = lanes_bits(value);
    u32x16 rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    i32x16 is_nan = value != value;
    u32x16 quiet = (bits >> 16) | 0x40u;
    u32x16 chosen = ((u32x16)is_nan & quiet) | (~(u32x16)is_nan & rounded);
    u16x16 halves = __builtin_convertvector(chosen, u16x16);
    memcpy(to, &halves, sizeof halves);
}

/* Sixteen elements of an activation (F32 or BF16) at element `index`. */
static inline f32x16 lanes_read(enum dtype dtype, const void *data, int64_t index) {
    return dtype == DTYPE_F32 ? lanes_load((const float *)data + index)
                              : lanes_load_bf16((const uint16_t *)data + index);
}

static inline void lanes_write(enum dtype dtype, void *data, int64_t index, f32x16 value) {
    if (dtype == DTYPE_F32) {
        lanes_store((float *)data + index, value);
    } else {
        lanes_store_bf16((uint16_t *)data + index, value);
    }
}

/* The same for fewer than sixteen; missing lanes read as 0. */
static inline f32x16 lanes_read_part(enum dtype dtype, const void *data, int64_t index, int64_t count) {
    float values[LANES] = {0};
    uint16_t halves[LANES] = {0};
    if (dtype == DTYPE_F32) {
        memcpy(values, (const float *)data + index, (size_t)count * sizeof *values);
        return lanes_load(values);
    }
    memcpy(halves, (const uint16_t *)data + index, (size_t)count * sizeof *halves);
    return lanes_load_bf16(halves);
}

static inline void lanes_write_part(enum dtype dtype, void *data, int64_t index, int64_t count,
                                    f32x16 value) {
    float values[LANES];
    uint16_t halves[LANES];
    if (dtype == DTYPE_F32) {
        lanes_store(values, value);
        memcpy((float *)data + index, values, (size_t)count * sizeof *values);
    } else {
        lanes_store_bf16(halves, value);
        memcpy((uint16_t *)data + index, halves, (size_t)count * sizeof *halves);
    }
}

/* The sum of the lanes, as the adjacent binary tree ((0+1)+(2+3))+... */
static inline float lanes_sum(f32x16 value) {
    float v[LANES];
    lanes_store(v, value);
    for (int step = 1; step < LANES; step *= 2) {
        for (int i = 0; i < LANES; i += 2 * step) {
            v[i] += v[i + step];
        }
    }
    return v[0];
}

/* Sums of even and odd neighbours of a, then of b. */
static inline f32x16 lanes_pair_sums(f32x16 a, f32x16 b) {
    f32x16 even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    f32x16 odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return even + odd;
}

/* lanes_sum of sixteen vectors at once: lane i of the result is lanes_sum(values[i]), bit for bit. */
static inline f32x16 lanes_sum_each(const f32x16 *values) {
    f32x16 sums[LANES];
    for (int i = 0; i < LANES; i++) {
        sums[i] = values[i];
    }
    for (int count = LANES; count > 1; count /= 2) {
        for (int i = 0; i < count / 2; i++) {
            sums[i] = lanes_pair_sums(sums[2 * i], sums[2 * i + 1]);
        }
    }
    return sums[0];
}

static inline float lanes_largest(f32x16 value) {
    float v[LANES];
    lanes_store(v, value);
    float largest = v[0];
    for (int i = 1; i < LANES; i++) {
        largest = v[i] > largest ? v[i] : largest;
    }
    return largest;
}

/* sum a[i] * b[i]: lane i mod 16 sums in order of i, then lanes_sum. */
static inline float lanes_dot(const float *a, const float *b, int64_t count) {
    f32x16 sum = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        sum += lanes_load(a + i) * lanes_load(b + i);
    }
    if (i < count) {
        sum += lanes_read_part(DTYPE_F32, a, i, count - i) * lanes_read_part(DTYPE_F32, b, i, count - i);
    }
    return lanes_sum(sum);
}

/* exp(x) within 2 ULP; 0 below -87.3, infinity above 88.7. */
static inline f32x16 lanes_exp(f32x16 x) {
    const float log2_e = 0x1.715476p+0f;
    const float ln2_high = 0x1.62e400p-1f;
    const float ln2_low = 0x1.7f7d1cp-20f;
    f32x16 clamped = lanes_min(lanes_max(x, lanes_splat(-87.3f)), lanes_splat(88.7f));
    /* Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits. */
    f32x16 shifted = clamped * log2_e + 0x1.8p23f;
    f32x16 whole = shifted - 0x1.8p23f;
    f32x16 r = clamped - whole * ln2_high;
    r = r - whole * ln2_low;
    f32x16 p = r * 0x1.6d7p-10f + 0x1.1247p-7f;
    p = p * r + 0x1.555502p-5f;
    p = p * r + 0x1.555548p-3f;
    p = p * r + 0x1p-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    u32x16 exponent = lanes_bits(shifted) << 23;
    f32x16 result = lanes_from_bits(lanes_bits(p) + exponent);
    result = lanes_select(x < -87.3f, lanes_splat(0.0f), result);
    result = lanes_select(x > 88.7f, lanes_splat(__builtin_inff()), result);
    return lanes_select(x != x, x, result);
}

/* 1 / (1 + exp(-x)). */
static inline f32x16 lanes_sigmoid(f32x16 x) {
    return 1.0f / (1.0f + lanes_exp(-x));
}

#endif
