/*
 * Pieces of sixteen lanes: what one register of the instruction set holds.
 *
 * Where that is less than sixteen lanes, compilers split arithmetic on whole vectors by themselves, but take
 * comparisons, conversions and shuffles apart lane by lane and pass vectors from step to step of a loop
 * through memory. Code on pieces has none of that. What happens lane by lane gives the same bits in pieces.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_PIECES_H
#define SLUICE_BACKENDS_CPU_LANES_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "tensor/dtype.h"

enum { LANES = 16 };

#if defined(__AVX512F__)
enum { PIECE_LANES = 16 };
#elif defined(__AVX2__)
enum { PIECE_LANES = 8 };
#else
enum { PIECE_LANES = 4 };
#endif
enum { PIECE_COUNT = LANES / PIECE_LANES };

/* Functions that are compiled apart for each constant type: the branch on it must not stay in their loops. */
#define LANES_INLINE static inline __attribute__((always_inline))

typedef float f32_piece __attribute__((vector_size(PIECE_LANES * 4)));
typedef int32_t i32_piece __attribute__((vector_size(PIECE_LANES * 4)));
typedef uint32_t u32_piece __attribute__((vector_size(PIECE_LANES * 4)));
typedef uint16_t u16_piece __attribute__((vector_size(PIECE_LANES * 2)));
typedef uint8_t u8_piece __attribute__((vector_size(PIECE_LANES)));

LANES_INLINE f32_piece piece_splat(float value) {
    return (f32_piece){0} + value;
}

/* Addresses need no alignment. */
LANES_INLINE f32_piece piece_load(const float *from) {
    f32_piece value;
    memcpy(&value, from, sizeof value);
    return value;
}

LANES_INLINE void piece_store(float *to, f32_piece value) {
    memcpy(to, &value, sizeof value);
}

/* Where `mask` (a comparison's result) is all ones a, elsewhere b. */
LANES_INLINE f32_piece piece_select(i32_piece mask, f32_piece a, f32_piece b) {
    return (f32_piece)((mask & (i32_piece)a) | (~mask & (i32_piece)b));
}

/* b if either is a NaN. */
LANES_INLINE f32_piece piece_max(f32_piece a, f32_piece b) {
    return piece_select(a > b, a, b);
}

LANES_INLINE f32_piece piece_min(f32_piece a, f32_piece b) {
    return piece_select(a < b, a, b);
}

LANES_INLINE f32_piece piece_magnitude(f32_piece value) {
    return (f32_piece)((u32_piece)value & 0x7FFFFFFFu);
}

/* Lanes at a distance of 1, 2, 4 or 8 change places. Distances from PIECE_LANES on do nothing. */
LANES_INLINE f32_piece piece_swap(f32_piece x, int distance) {
#if defined(__AVX512F__)
    return distance == 1 ? __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
           : distance == 2
               ? __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
           : distance == 4
               ? __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
           : distance == 8
               ? __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
               : x;
#elif defined(__AVX2__)
    return distance == 1   ? __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6)
           : distance == 2 ? __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
           : distance == 4 ? __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)
                           : x;
#else
    return distance == 1   ? __builtin_shufflevector(x, x, 1, 0, 3, 2)
           : distance == 2 ? __builtin_shufflevector(x, x, 2, 3, 0, 1)
                           : x;
#endif
}

/* The largest lane; of numbers without NaN. */
LANES_INLINE float piece_largest(f32_piece x) {
#pragma GCC unroll 4
    for (int distance = PIECE_LANES / 2; distance > 0; distance /= 2) {
        x = piece_max(x, piece_swap(x, distance));
    }
    return x[0];
}

/* From bf16: one instruction where the generic conversion takes several. */
LANES_INLINE f32_piece piece_widen(u16_piece halves) {
#if defined(__AVX512F__)
    return (f32_piece)((u32_piece)_mm512_cvtepu16_epi32((__m256i)halves) << 16);
#elif defined(__AVX2__)
    return (f32_piece)((u32_piece)_mm256_cvtepu16_epi32((__m128i)halves) << 16);
#else
    return (f32_piece)(__builtin_convertvector(halves, u32_piece) << 16);
#endif
}

/* To bf16: nearest, ties to even. A NaN stays a NaN. */
LANES_INLINE u16_piece piece_narrow(f32_piece value) {
    u32_piece bits = (u32_piece)value;
    u32_piece rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    u32_piece is_nan = (u32_piece)(value != value);
    u32_piece quiet = (bits >> 16) | 0x40u;
    return __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), u16_piece);
}

/*
 * Elements of an activation or plain weight (F32 or BF16) from `index`: one piece, or the `left` that remain
 * if those are fewer. Missing ones read as 0. The address needs no alignment.
 */
LANES_INLINE f32_piece piece_read(enum dtype dtype, const void *data, int64_t index, int64_t left) {
    f32_piece values = {0};
    u16_piece halves = {0};
    const void *from = (const char *)data + (size_t)index * (dtype == DTYPE_F32 ? 4 : 2);
    if (dtype == DTYPE_F32 && left >= PIECE_LANES) {
        memcpy(&values, from, sizeof values);
    } else if (dtype == DTYPE_F32) {
        memcpy(&values, from, (size_t)left * sizeof values[0]);
    } else if (left >= PIECE_LANES) {
        memcpy(&halves, from, sizeof halves);
    } else {
        memcpy(&halves, from, (size_t)left * sizeof halves[0]);
    }
    return dtype == DTYPE_F32 ? values : piece_widen(halves);
}

LANES_INLINE void piece_write(enum dtype dtype, void *data, int64_t index, int64_t left, f32_piece values) {
    void *to = (char *)data + (size_t)index * (dtype == DTYPE_F32 ? 4 : 2);
    u16_piece halves = piece_narrow(values);
    if (dtype == DTYPE_F32 && left >= PIECE_LANES) {
        memcpy(to, &values, sizeof values);
    } else if (dtype == DTYPE_F32) {
        memcpy(to, &values, (size_t)left * sizeof values[0]);
    } else if (left >= PIECE_LANES) {
        memcpy(to, &halves, sizeof halves);
    } else {
        memcpy(to, &halves, (size_t)left * sizeof halves[0]);
    }
}

/* exp(x) within 2 ULP; 0 below -87.3, infinity above 88.7. */
LANES_INLINE f32_piece piece_exp(f32_piece x) {
    const float log2_e = 0x1.715476p+0f;
    const float ln2_high = 0x1.62e400p-1f;
    const float ln2_low = 0x1.7f7d1cp-20f;
    f32_piece clamped = piece_min(piece_max(x, piece_splat(-87.3f)), piece_splat(88.7f));
    /* Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits. */
    f32_piece shifted = clamped * log2_e + 0x1.8p23f;
    f32_piece whole = shifted - 0x1.8p23f;
    f32_piece r = clamped - whole * ln2_high;
    r = r - whole * ln2_low;
    f32_piece p = r * 0x1.6d7p-10f + 0x1.1247p-7f;
    p = p * r + 0x1.555502p-5f;
    p = p * r + 0x1.555548p-3f;
    p = p * r + 0x1p-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    u32_piece exponent = (u32_piece)shifted << 23;
    f32_piece result = (f32_piece)((u32_piece)p + exponent);
    result = piece_select(x < -87.3f, piece_splat(0.0f), result);
    result = piece_select(x > 88.7f, piece_splat(__builtin_inff()), result);
    return piece_select(x != x, x, result);
}

/* 1 / (1 + exp(-x)). */
LANES_INLINE f32_piece piece_sigmoid(f32_piece x) {
    return 1.0f / (1.0f + piece_exp(-x));
}

#endif
