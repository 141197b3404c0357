/*
 * Sixteen fp32 lanes: the arithmetic of the `lanes` kernels.
 *
 * Kernels in this folder are written once on these vectors and compiled once per instruction set (LANES_ISA
 * is portable, avx2 or avx512). All steps are lane-wise IEEE operations in a fixed order, never contracted to
 * fused multiply-adds, so that every instruction set gives the same bits: one arithmetic id, "lanes".
 *
 * Where registers are narrower the compiler splits arithmetic by itself, but takes comparisons, conversions
 * and shuffles apart lane by lane: those go by pieces of a register here. Kernels use lanes_less and its
 * like, not the operators.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "backends/cpu/cpu_features.h"
#include "tensor/dtype.h"

enum { LANES = 16 };

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

/* Lanes of one register. */
#if defined(__AVX512F__)
enum { PIECE_LANES = 16 };
#define LANES_PIECE_SWAP_1 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define LANES_PIECE_SWAP_2 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define LANES_PIECE_SWAP_4 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11
#define LANES_PIECE_SWAP_8 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7
#define LANES_PIECE_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define LANES_PIECE_ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif defined(__AVX2__)
enum { PIECE_LANES = 8 };
#define LANES_PIECE_SWAP_1 1, 0, 3, 2, 5, 4, 7, 6
#define LANES_PIECE_SWAP_2 2, 3, 0, 1, 6, 7, 4, 5
#define LANES_PIECE_SWAP_4 4, 5, 6, 7, 0, 1, 2, 3
#define LANES_PIECE_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define LANES_PIECE_ODD 1, 3, 5, 7, 9, 11, 13, 15
#else
enum { PIECE_LANES = 4 };
#define LANES_PIECE_SWAP_1 1, 0, 3, 2
#define LANES_PIECE_SWAP_2 2, 3, 0, 1
#define LANES_PIECE_EVEN 0, 2, 4, 6
#define LANES_PIECE_ODD 1, 3, 5, 7
#endif
enum { PIECE_COUNT = LANES / PIECE_LANES };

typedef float f32_piece __attribute__((vector_size(PIECE_LANES * 4)));
typedef int32_t i32_piece __attribute__((vector_size(PIECE_LANES * 4)));
typedef uint32_t u32_piece __attribute__((vector_size(PIECE_LANES * 4)));
typedef uint16_t u16_piece __attribute__((vector_size(PIECE_LANES * 2)));

union f32_pieces {
    f32x16 whole;
    f32_piece piece[PIECE_COUNT];
};

union i32_pieces {
    i32x16 whole;
    i32_piece piece[PIECE_COUNT];
};

union u32_pieces {
    u32x16 whole;
    u32_piece piece[PIECE_COUNT];
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

/* Where `mask` is all ones a, elsewhere b. */
static inline f32x16 lanes_select(i32x16 mask, f32x16 a, f32x16 b) {
    u32x16 chosen = ((u32x16)mask & lanes_bits(a)) | (~(u32x16)mask & lanes_bits(b));
    return lanes_from_bits(chosen);
}

/* All ones where a < b. */
static inline i32x16 lanes_less(f32x16 a, f32x16 b) {
    union f32_pieces left = {a};
    union f32_pieces right = {b};
    union i32_pieces mask;
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        mask.piece[i] = left.piece[i] < right.piece[i];
    }
    return mask.whole;
}

static inline i32x16 lanes_is_nan(f32x16 value) {
    union f32_pieces from = {value};
    union i32_pieces mask;
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        mask.piece[i] = from.piece[i] != from.piece[i];
    }
    return mask.whole;
}

/* b if either is a NaN. */
static inline f32x16 lanes_max(f32x16 a, f32x16 b) {
    return lanes_select(lanes_less(b, a), a, b);
}

static inline f32x16 lanes_min(f32x16 a, f32x16 b) {
    return lanes_select(lanes_less(a, b), a, b);
}

/* One register of bf16 as floats: one instruction where the generic conversion takes several. */
static inline f32_piece lanes_widen(u16_piece halves) {
#if defined(__AVX512F__)
    return (f32_piece)((u32_piece)_mm512_cvtepu16_epi32((__m256i)halves) << 16);
#elif defined(__AVX2__)
    return (f32_piece)((u32_piece)_mm256_cvtepu16_epi32((__m128i)halves) << 16);
#else
    return (f32_piece)(__builtin_convertvector(halves, u32_piece) << 16);
#endif
}

/* To bf16: nearest, ties to even. A NaN stays a NaN. */
static inline u16_piece lanes_narrow(f32_piece value) {
    u32_piece bits = (u32_piece)value;
    u32_piece rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    u32_piece is_nan = (u32_piece)(value != value);
    u32_piece quiet = (bits >> 16) | 0x40u;
    return __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), u16_piece);
}

static inline f32x16 lanes_load_bf16(const void *from) {
    u16_piece halves[PIECE_COUNT];
    union f32_pieces value;
    memcpy(halves, from, sizeof halves);
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        value.piece[i] = lanes_widen(halves[i]);
    }
    return value.whole;
}

/* The lower halves of all lanes. */
static inline void lanes_store_halves(void *to, u32x16 value) {
    union u32_pieces from = {value};
    u16_piece halves[PIECE_COUNT];
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        halves[i] = __builtin_convertvector(from.piece[i], u16_piece);
    }
    memcpy(to, halves, sizeof halves);
}

static inline void lanes_store_bf16(void *to, f32x16 value) {
    union f32_pieces from = {value};
    u16_piece halves[PIECE_COUNT];
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        halves[i] = lanes_narrow(from.piece[i]);
    }
    memcpy(to, halves, sizeof halves);
}

/* Elements of one register (F32 or BF16) from `index`, of which `left` remain: missing ones read as 0. */
static inline f32_piece lanes_read_piece(enum dtype dtype, const void *data, int64_t index, int64_t left) {
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
    return dtype == DTYPE_F32 ? values : lanes_widen(halves);
}

static inline void lanes_write_piece(enum dtype dtype, void *data, int64_t index, int64_t left,
                                     f32_piece values) {
    void *to = (char *)data + (size_t)index * (dtype == DTYPE_F32 ? 4 : 2);
    u16_piece halves = lanes_narrow(values);
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

/*
 * A value that a loop carries. In a plain f32x16 it would go through memory in small parts where registers
 * are narrower.
 */
struct lanes_running {
    f32_piece piece[PIECE_COUNT];
};

static inline f32x16 lanes_running_value(const struct lanes_running *running) {
    union f32_pieces value;
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        value.piece[i] = running->piece[i];
    }
    return value.whole;
}

static inline void lanes_running_set(struct lanes_running *running, f32x16 value) {
    union f32_pieces from = {value};
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        running->piece[i] = from.piece[i];
    }
}

static inline void lanes_running_add(struct lanes_running *running, f32x16 term) {
    union f32_pieces from = {term};
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        running->piece[i] += from.piece[i];
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
    union f32_pieces from[2] = {{a}, {b}};
    union f32_pieces sums;
#pragma GCC unroll 4
    for (int i = 0; i < PIECE_COUNT; i++) {
        f32_piece left = from[2 * i / PIECE_COUNT].piece[2 * i % PIECE_COUNT];
        f32_piece right = from[(2 * i + 1) / PIECE_COUNT].piece[(2 * i + 1) % PIECE_COUNT];
        sums.piece[i] = __builtin_shufflevector(left, right, LANES_PIECE_EVEN) +
                        __builtin_shufflevector(left, right, LANES_PIECE_ODD);
    }
    return sums.whole;
}

/* Lanes at a distance of 1, 2, 4 or 8 change places. */
#define LANES_SWAP_INSIDE(value, ...)                                                                    \
    do {                                                                                                 \
        for (int i = 0; i < PIECE_COUNT; i++) {                                                          \
            (value).piece[i] = __builtin_shufflevector((value).piece[i], (value).piece[i], __VA_ARGS__); \
        }                                                                                                \
    } while (0)
#define LANES_SWAP_PIECES(value, distance)                        \
    do {                                                          \
        for (int i = 0; i < PIECE_COUNT; i++) {                   \
            if ((i & (distance)) == 0) {                          \
                f32_piece lower = (value).piece[i];               \
                (value).piece[i] = (value).piece[i + (distance)]; \
                (value).piece[i + (distance)] = lower;            \
            }                                                     \
        }                                                         \
    } while (0)

static inline f32x16 lanes_swap_1(f32x16 value) {
    union f32_pieces pieces = {value};
    LANES_SWAP_INSIDE(pieces, LANES_PIECE_SWAP_1);
    return pieces.whole;
}

static inline f32x16 lanes_swap_2(f32x16 value) {
    union f32_pieces pieces = {value};
    LANES_SWAP_INSIDE(pieces, LANES_PIECE_SWAP_2);
    return pieces.whole;
}

static inline f32x16 lanes_swap_4(f32x16 value) {
    union f32_pieces pieces = {value};
#ifdef LANES_PIECE_SWAP_4
    LANES_SWAP_INSIDE(pieces, LANES_PIECE_SWAP_4);
#else
    LANES_SWAP_PIECES(pieces, 1);
#endif
    return pieces.whole;
}

static inline f32x16 lanes_swap_8(f32x16 value) {
    union f32_pieces pieces = {value};
#ifdef LANES_PIECE_SWAP_8
    LANES_SWAP_INSIDE(pieces, LANES_PIECE_SWAP_8);
#else
    LANES_SWAP_PIECES(pieces, 8 / PIECE_LANES);
#endif
    return pieces.whole;
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

/* sum a[i] * b[i]: lane i mod 16 sums in order of i, then lanes_sum. */
static inline float lanes_dot(const float *a, const float *b, int64_t count) {
    struct lanes_running sum = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes_running_add(&sum, lanes_load(a + i) * lanes_load(b + i));
    }
    if (i < count) {
        lanes_running_add(&sum, lanes_read_part(DTYPE_F32, a, i, count - i) *
                                    lanes_read_part(DTYPE_F32, b, i, count - i));
    }
    return lanes_sum(lanes_running_value(&sum));
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
    result = lanes_select(lanes_less(x, lanes_splat(-87.3f)), lanes_splat(0.0f), result);
    result = lanes_select(lanes_less(lanes_splat(88.7f), x), lanes_splat(__builtin_inff()), result);
    return lanes_select(lanes_is_nan(x), x, result);
}

/* 1 / (1 + exp(-x)). */
static inline f32x16 lanes_sigmoid(f32x16 x) {
    return 1.0f / (1.0f + lanes_exp(-x));
}

#endif
