/*
 * State rows to floats, sixteen channels at a time: the same values as row_decode, which takes what the fast
 * way does not fit. Also activations to floats padded with zeros.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_DECODE_ROWS_H
#define SLUICE_BACKENDS_CPU_LANES_DECODE_ROWS_H

#include "backends/cpu/lanes/lanes.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"
#include "tensor/row_layout.h"

typedef uint8_t u8x16 __attribute__((vector_size(16)));

/* Channels of a decoded row, padded to whole vectors. */
static inline int64_t lanes_padded(int64_t width) {
    return (width + LANES - 1) / LANES * LANES;
}

static inline u32x16 lanes_load_bytes(const unsigned char *from) {
    u8x16 bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, u32x16);
}

static inline f32x16 lanes_select_bits(u32x16 mask, u32x16 a, u32x16 b) {
    return lanes_from_bits((mask & a) | (~mask & b));
}

static inline f32x16 lanes_decode_e4m3(u32x16 code) {
    u32x16 magnitude = code & 0x7Fu;
    u32x16 sign = (code & 0x80u) << 24;
    f32x16 small = __builtin_convertvector((i32x16)magnitude, f32x16) * 0x1p-9f;
    u32x16 is_small = (u32x16)(magnitude < 8u);
    u32x16 is_nan = (u32x16)(magnitude == 0x7Fu);
    u32x16 normal = (magnitude << 20) + (120u << 23);
    u32x16 bits = lanes_bits(lanes_select_bits(is_small, lanes_bits(small), normal));
    return lanes_from_bits((is_nan & 0x7FC00000u) | (~is_nan & bits) | sign);
}

static inline f32x16 lanes_decode_e2m1(u32x16 code) {
    u32x16 magnitude = code & 7u;
    u32x16 is_small = (u32x16)(magnitude < 2u);
    u32x16 small = lanes_bits(__builtin_convertvector((i32x16)magnitude, f32x16) * 0.5f);
    u32x16 normal = (magnitude << 22) + (126u << 23);
    u32x16 bits = lanes_bits(lanes_select_bits(is_small, small, normal));
    return lanes_from_bits(bits | ((code & 8u) << 28));
}

static inline void lanes_decode_fp8_row(const struct row_layout *layout, const unsigned char *row,
                                        float *out) {
    int64_t coded = layout->width - layout->plain_width;
    const unsigned char *plain = row + row_layout_plain_offset(layout);
    for (int64_t i = 0; i < coded; i += LANES) {
        float scale = e8m0_decode(row[coded + i / ACT8_KV_BLOCK]);
        lanes_store(out + i, lanes_decode_e4m3(lanes_load_bytes(row + i)) * scale);
    }
    for (int64_t i = 0; i < layout->plain_width; i += LANES) {
        lanes_store(out + coded + i, lanes_load_bf16(plain + 2 * i));
    }
}

static inline void lanes_decode_fp4_row(const struct row_layout *layout, const unsigned char *row,
                                        float *out) {
    for (int64_t block = 0; block < layout->width / ACT4_BLOCK; block++) {
        float scale = e8m0_decode(row[layout->width / 2 + block]);
        u32x16 pairs = lanes_load_bytes(row + block * (ACT4_BLOCK / 2));
        f32x16 even = lanes_decode_e2m1(pairs & 15u) * scale;
        f32x16 odd = lanes_decode_e2m1(pairs >> 4) * scale;
        float *to = out + block * ACT4_BLOCK;
        lanes_store(
            to, __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
        lanes_store(to + LANES, __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                        29, 14, 30, 15, 31));
    }
}

/*
 * The row's channels as floats, padded with zeros to lanes_padded(width): in `room` [lanes_padded(width)], or
 * where the row lies if it holds whole vectors of floats.
 */
static inline const float *lanes_decode_row(const struct row_layout *layout, const unsigned char *row,
                                            float *room) {
    int64_t coded = layout->width - layout->plain_width;
    if (layout->encoding == ROW_F32 && layout->width % LANES == 0) {
        return (const float *)(const void *)row;
    }
    if (layout->encoding == ROW_FP8 && coded % ACT8_KV_BLOCK == 0 && layout->plain_width % LANES == 0) {
        lanes_decode_fp8_row(layout, row, room);
        return room;
    }
    if (layout->encoding == ROW_FP4) {
        lanes_decode_fp4_row(layout, row, room);
        return room;
    }
    row_decode(layout, row, room);
    memset(room + layout->width, 0, (size_t)(lanes_padded(layout->width) - layout->width) * sizeof *room);
    return room;
}

/* `count` elements of an activation from element `first`, padded with zeros to lanes_padded(count). */
static inline void lanes_decode_activation(enum dtype dtype, const void *data, int64_t first, int64_t count,
                                           float *out) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes_store(out + i, lanes_read(dtype, data, first + i));
    }
    if (i < count) {
        lanes_store(out + i, lanes_read_part(dtype, data, first + i, count - i));
    }
}

#endif
