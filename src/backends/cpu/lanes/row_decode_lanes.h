/*
 * State rows to floats, a register of channels at a time: the same values as row_decode, which takes what the
 * fast way does not fit. Also activations to floats padded with zeros.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_ROW_DECODE_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_ROW_DECODE_LANES_H

#include "backends/cpu/lanes/decode_pieces.h"
#include "backends/cpu/lanes/dot_tile_lanes.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"
#include "tensor/row_layout.h"

/* Channels of a decoded row, padded to whole vectors. */
static inline int64_t lanes_padded(int64_t width) {
    return (width + LANES - 1) / LANES * LANES;
}

static inline void lanes_decode_fp8_row(const struct row_layout *layout, const unsigned char *row,
                                        float *out) {
    int64_t coded = layout->width - layout->plain_width;
    const unsigned char *plain = row + row_layout_plain_offset(layout);
    const unsigned char *scales = row + coded;
    for (int64_t first = 0; first < coded; first += layout->block_width, scales++) {
        float scale = e8m0_decode(*scales);
        int64_t end = first + layout->block_width < coded ? first + layout->block_width : coded;
        for (int64_t i = first; i < end; i += PIECE_LANES) {
            piece_store(out + i, piece_decode_e4m3(piece_load_bytes(row + i)) * scale);
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
            piece_store(out + block * ACT4_BLOCK + i, piece_decode_e2m1(piece_load_bytes(codes + i)) * scale);
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
    if (layout->encoding == ROW_FP8 && coded % PIECE_LANES == 0 && coded % LANES == 0 &&
        layout->plain_width % LANES == 0) {
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
