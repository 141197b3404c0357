/*
 * Storing one state row: row_encode of tensor/row_layout.h on lanes, equal in every bit.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_ROW_ENCODE_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_ROW_ENCODE_LANES_H

#include "backends/cpu/lanes/quantize_lanes.h"
#include "tensor/row_layout.h"

/* ACT8 of the leading channels in their blocks, bf16 of the others. `first`: the row's first element in x. */
LANES_INLINE void lanes_encode_fp8_row(enum dtype dtype, const struct row_layout *layout, const void *x,
                                       int64_t first, unsigned char *row) {
    int64_t coded = layout->width - layout->plain_width;
    size_t plain = row_layout_plain_offset(layout);
    unsigned char *scales = row + coded;
    memset(scales, 0, plain - (size_t)coded);
    for (int64_t start = 0; start < coded; start += layout->block_width, scales++) {
        int64_t length = coded - start < layout->block_width ? coded - start : layout->block_width;
        int exponent = act8_scale_exponent(lanes_largest_magnitude(dtype, x, first + start, length));
        float inverse = f32_power_of_two(-exponent);
        for (int64_t i = 0; i < length; i += PIECE_LANES) {
            f32_piece value = piece_read(dtype, x, first + start + i, length - i) * inverse;
            u8_piece codes = __builtin_convertvector(piece_e4m3_encode(value), u8_piece);
            memcpy(row + start + i, &codes, (size_t)(length - i < PIECE_LANES ? length - i : PIECE_LANES));
        }
        *scales = (unsigned char)(exponent + 127);
    }
    for (int64_t i = 0; i < layout->plain_width; i += PIECE_LANES) {
        int64_t left = layout->plain_width - i;
        piece_write(DTYPE_BF16, row + plain, i, left, piece_read(dtype, x, first + coded + i, left));
    }
}

/* ACT4 in groups of 32, two codes a byte. */
LANES_INLINE void lanes_encode_fp4_row(enum dtype dtype, const struct row_layout *layout, const void *x,
                                       int64_t first, unsigned char *row) {
    for (int64_t start = 0; start < layout->width; start += ACT4_BLOCK) {
        int exponent = act4_scale_exponent(lanes_largest_magnitude(dtype, x, first + start, ACT4_BLOCK));
        float inverse = f32_power_of_two(-exponent);
        unsigned char codes[ACT4_BLOCK];
        for (int64_t i = 0; i < ACT4_BLOCK; i += PIECE_LANES) {
            f32_piece value = piece_read(dtype, x, first + start + i, PIECE_LANES) * inverse;
            u8_piece bytes = __builtin_convertvector(piece_e2m1_encode(value), u8_piece);
            memcpy(codes + i, &bytes, sizeof bytes);
        }
        for (int64_t i = 0; i < ACT4_BLOCK; i += 2) {
            row[(start + i) / 2] = (unsigned char)(codes[i] | (codes[i + 1] << 4));
        }
        row[layout->width / 2 + start / ACT4_BLOCK] = (unsigned char)(exponent + 127);
    }
}

LANES_INLINE void lanes_encode_row_typed(enum dtype dtype, const struct row_layout *layout, const void *x,
                                         int64_t first, unsigned char *row) {
    switch (layout->encoding) {
    case ROW_F32:
        for (int64_t i = 0; i < layout->width; i += PIECE_LANES) {
            int64_t left = layout->width - i;
            piece_write(DTYPE_F32, row, i, left, piece_read(dtype, x, first + i, left));
        }
        break;
    case ROW_FP8:
        lanes_encode_fp8_row(dtype, layout, x, first, row);
        break;
    case ROW_FP4:
        lanes_encode_fp4_row(dtype, layout, x, first, row);
        break;
    }
}

/* Stores layout->width elements (F32 or BF16) of x from element `first`. */
static inline void lanes_encode_row(enum dtype dtype, const struct row_layout *layout, const void *x,
                                    int64_t first, unsigned char *row) {
    if (dtype == DTYPE_F32) {
        lanes_encode_row_typed(DTYPE_F32, layout, x, first, row);
    } else {
        lanes_encode_row_typed(DTYPE_BF16, layout, x, first, row);
    }
}

#endif
