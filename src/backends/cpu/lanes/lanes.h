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
#include "backends/cpu/lanes/pieces.h"
#include "tensor/dtype.h"

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

/* Carried by loops piece by piece: a whole f32x16 would go through memory (pieces.h). */
union f32_pieces {
    f32x16 whole;
    f32_piece piece[PIECE_COUNT];
};

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
    return (u32x16)value;
}

static inline f32x16 lanes_from_bits(u32x16 bits) {
    return (f32x16)bits;
}

/* b if either is a NaN. */
static inline f32x16 lanes_max(f32x16 a, f32x16 b) {
    union f32_pieces left = {a};
    union f32_pieces right = {b};
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        left.piece[i] = piece_max(left.piece[i], right.piece[i]);
    }
    return left.whole;
}

static inline f32x16 lanes_min(f32x16 a, f32x16 b) {
    union f32_pieces left = {a};
    union f32_pieces right = {b};
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        left.piece[i] = piece_min(left.piece[i], right.piece[i]);
    }
    return left.whole;
}

static inline f32x16 lanes_load_bf16(const void *from) {
    u16_piece halves[PIECE_COUNT];
    union f32_pieces value;
    memcpy(halves, from, sizeof halves);
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        value.piece[i] = piece_widen(halves[i]);
    }
    return value.whole;
}

/* Nearest, ties to even. A NaN stays a NaN. */
static inline void lanes_store_bf16(void *to, f32x16 value) {
    union f32_pieces from = {value};
    u16_piece halves[PIECE_COUNT];
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        halves[i] = piece_narrow(from.piece[i]);
    }
    memcpy(to, halves, sizeof halves);
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

/* Sums of even and odd neighbours of a, then of b, in one piece. */
static inline f32_piece piece_pair_sums(f32_piece a, f32_piece b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/* The same for sixteen lanes. */
static inline f32x16 lanes_pair_sums(f32x16 a, f32x16 b) {
    union f32_pieces from[2] = {{a}, {b}};
    union f32_pieces sums;
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        f32_piece left = from[2 * i / PIECE_COUNT].piece[2 * i % PIECE_COUNT];
        f32_piece right = from[(2 * i + 1) / PIECE_COUNT].piece[(2 * i + 1) % PIECE_COUNT];
        sums.piece[i] = piece_pair_sums(left, right);
    }
    return sums.whole;
}

/* lanes_sum of sixteen vectors at once: lane i of the result is lanes_sum(values[i]), bit for bit. */
static inline f32x16 lanes_sum_each(const f32x16 *values) {
    f32x16 eight[8];
    f32x16 four[4];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        eight[i] = lanes_pair_sums(values[2 * i], values[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        four[i] = lanes_pair_sums(eight[2 * i], eight[2 * i + 1]);
    }
    return lanes_pair_sums(lanes_pair_sums(four[0], four[1]), lanes_pair_sums(four[2], four[3]));
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

/* exp(x) within 2 ULP; 0 below -87.3, infinity above 88.7. */
static inline f32x16 lanes_exp(f32x16 x) {
    union f32_pieces value = {x};
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        value.piece[i] = piece_exp(value.piece[i]);
    }
    return value.whole;
}

/* 1 / (1 + exp(-x)). */
static inline f32x16 lanes_sigmoid(f32x16 x) {
    return 1.0f / (1.0f + lanes_exp(-x));
}

#endif
