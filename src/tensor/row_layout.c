/* Encoding and decoding of state rows. */
#include "tensor/row_layout.h"

#include <string.h>

#include "tensor/elements.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

int64_t row_layout_scale_count(const struct row_layout *layout) {
    return (layout->width - layout->plain_width + layout->block_width - 1) / layout->block_width;
}

size_t row_layout_plain_offset(const struct row_layout *layout) {
    size_t bytes = (size_t)(layout->width - layout->plain_width + row_layout_scale_count(layout));
    return (bytes + 7) & ~(size_t)7;
}

size_t row_layout_bytes(const struct row_layout *layout) {
    switch (layout->encoding) {
    case ROW_F32:
        return (size_t)layout->width * sizeof(float);
    case ROW_FP8:
        return row_layout_plain_offset(layout) + (size_t)layout->plain_width * 2;
    case ROW_FP4:
        return (size_t)(layout->width / 2 + layout->width / ACT4_BLOCK);
    }
    return 0;
}

static void encode_fp8(const struct row_layout *layout, const float *values, unsigned char *row) {
    int64_t coded = layout->width - layout->plain_width;
    size_t plain = row_layout_plain_offset(layout);
    memset(row + coded, 0, plain - (size_t)coded);
    for (int64_t block = 0; block < row_layout_scale_count(layout); block++) {
        int64_t first = block * layout->block_width;
        int64_t length = coded - first < layout->block_width ? coded - first : layout->block_width;
        row[coded + block] = (unsigned char)(act8_encode_block(values + first, length, row + first) + 127);
    }
    elements_encode(DTYPE_BF16, values + coded, layout->plain_width, row + plain);
}

static void decode_fp8(const struct row_layout *layout, const unsigned char *row, float *values) {
    int64_t coded = layout->width - layout->plain_width;
    for (int64_t i = 0; i < coded; i++) {
        values[i] = e4m3_decode(row[i]) * e8m0_decode(row[coded + i / layout->block_width]);
    }
    elements_decode(DTYPE_BF16, row + row_layout_plain_offset(layout), layout->plain_width, values + coded);
}

static void encode_fp4(const struct row_layout *layout, const float *values, unsigned char *row) {
    for (int64_t block = 0; block < layout->width / ACT4_BLOCK; block++) {
        uint8_t codes[ACT4_BLOCK];
        int exponent = act4_encode_block(values + block * ACT4_BLOCK, ACT4_BLOCK, codes);
        for (int64_t pair = 0; pair < ACT4_BLOCK / 2; pair++) {
            row[block * (ACT4_BLOCK / 2) + pair] =
                (unsigned char)(codes[2 * pair] | (codes[2 * pair + 1] << 4));
        }
        row[layout->width / 2 + block] = (unsigned char)(exponent + 127);
    }
}

static void decode_fp4(const struct row_layout *layout, const unsigned char *row, float *values) {
    for (int64_t i = 0; i < layout->width; i++) {
        uint8_t code = (uint8_t)(i % 2 == 0 ? row[i / 2] & 15u : row[i / 2] >> 4);
        values[i] = e2m1_decode(code) * e8m0_decode(row[layout->width / 2 + i / ACT4_BLOCK]);
    }
}

void row_encode(const struct row_layout *layout, const float *values, void *row) {
    switch (layout->encoding) {
    case ROW_F32:
        elements_encode(DTYPE_F32, values, layout->width, row);
        break;
    case ROW_FP8:
        encode_fp8(layout, values, row);
        break;
    case ROW_FP4:
        encode_fp4(layout, values, row);
        break;
    }
}

void row_decode(const struct row_layout *layout, const void *row, float *values) {
    switch (layout->encoding) {
    case ROW_F32:
        elements_decode(DTYPE_F32, row, layout->width, values);
        break;
    case ROW_FP8:
        decode_fp8(layout, row, values);
        break;
    case ROW_FP4:
        decode_fp4(layout, row, values);
        break;
    }
}
