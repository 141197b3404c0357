/*
 * State rows to floats, a register of channels at a time: the same values as row_decode, which takes what the
 * fast way does not fit. Also activations to floats padded with zeros.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_DECODE_ROWS_H
#define SLUICE_BACKENDS_CPU_LANES_DECODE_ROWS_H

#include "backends/cpu/lanes/dot_tile.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"
#include "tensor/row_layout.h"

/* Channels of a decoded row, padded to whole vectors. */
static inline int64_t lanes_padded(int64_t width) {
    return (width + LANES - 1) / LANES * LANES;
}

typedef uint8_t u8_piece __attribute__((vector_size(PIECE_LANES)));

static inline u32_piece u32_piece_load_bytes(const unsigned char *from) {
    u8_piece bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, u32_piece);
}

static inline u32_piece u32_piece_choose(u32_piece mask, u32_piece a, u32_piece b) {
    return (mask & a) | (~mask & b);
}

static inline f32_piece decode_e4m3(u32_piece code) {
    u32_piece magnitude = code & 0x7Fu;
    f32_piece small = __builtin_convertvector((i32_piece)magnitude, f32_piece) * 0x1p-9f;
    u32_piece normal = (magnitude << 20) + (120u << 23);
    u32_piece bits = u32_piece_choose((u32_piece)(magnitude < 8u), (u32_piece)small, normal);
    u32_piece is_nan = (u32_piece)(magnitude == 0x7Fu);
    return (f32_piece)((is_nan & 0x7FC00000u) | (~is_nan & bits) | ((code & 0x80u) << 24));
}

static inline f32_piece decode_e2m1(u32_piece code) {
    u32_piece magnitude = code & 7u;
    f32_piece small = __builtin_convertvector((i32_piece)magnitude, f32_piece) * 0.5f;
    u32_piece normal = (magnitude << 22) + (126u << 23);
    u32_piece bits = u32_piece_choose((u32_piece)(magnitude < 2u), (u32_piece)small, normal);
    return (f32_piece)(bits | ((code & 8u) << 28));
}

static inline void lanes_decode_fp8_row(const struct row_layout *layout, const unsigned char *row,
                                        float *out) {
    int64_t coded = layout->width - layout->plain_width;
    const unsigned char *plain = row + row_layout_plain_offset(layout);
    for (int64_t first = 0; first < coded; first += ACT8_KV_BLOCK) {
        float scale = e8m0_decode(row[coded + first / ACT8_KV_BLOCK]);
        for (int64_t i = first; i < first + ACT8_KV_BLOCK; i += PIECE_LANES) {
            f32_piece_store(out + i, decode_e4m3(u32_piece_load_bytes(row + i)) * scale);
        }
    }
    for (int64_t i = 0; i < layout->plain_width; i += LANES) {
        lanes_store(out + coded + i, lanes_load_bf16(plain + 2 * i));
    }
}

static inline void lanes_decode_fp4_row(const struct row_layout *layout, const unsigned char *row,
                                        float *out) {
    for (int64_t block = 0; block < layout->width / ACT4_BLOCK; block++) {
        unsigned char codes[ACT4_BLOCK];
        for (int64_t i = 0; i < ACT4_BLOCK / 2; i++) {
            unsigned char pair = row[block * (ACT4_BLOCK / 2) + i];
            codes[2 * i] = pair & 15u;
            codes[2 * i + 1] = pair >> 4;
        }
        float scale = e8m0_decode(row[layout->width / 2 + block]);
        for (int64_t i = 0; i < ACT4_BLOCK; i += PIECE_LANES) {
            f32_piece_store(out + block * ACT4_BLOCK + i,
                            decode_e2m1(u32_piece_load_bytes(codes + i)) * scale);
        }
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
