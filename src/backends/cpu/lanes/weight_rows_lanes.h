/*
 * Weight rows to floats on lanes: the values of weight_decode_row, exactly.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_WEIGHT_ROWS_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_WEIGHT_ROWS_LANES_H

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/quantize_lanes.h"
#include "tensor/number_format.h"
#include "tensor/weight.h"

/* Sixteen e4m3 codes. */
static inline f32x16 lanes_decode_e4m3(const uint8_t *codes) {
    u8x16 bytes;
    memcpy(&bytes, codes, sizeof bytes);
    u32x16 code = __builtin_convertvector(bytes, u32x16);
    u32x16 sign = (code & 0x80u) << 24;
    u32x16 magnitude = code & 0x7Fu;
    u32x16 normal = (magnitude << 20) + (120u << 23);
    f32x16 small = __builtin_convertvector((i32x16)(code & 7u), f32x16) * 0x1p-9f;
    u32x16 is_small = (u32x16)(magnitude < 8u);
    u32x16 is_nan = (u32x16)(magnitude == 0x7Fu);
    u32x16 bits = (is_small & lanes_bits(small)) | (~is_small & normal);
    bits = (is_nan & 0x7FC00000u) | (~is_nan & bits);
    return lanes_from_bits(bits | sign);
}

/* Sixteen e2m1 codes, one per lane: exponents 0 to 3 and one mantissa bit. */
static inline f32x16 lanes_decode_e2m1(u32x16 code) {
    u32x16 sign = (code & 8u) << 28;
    u32x16 magnitude = code & 7u;
    u32x16 normal = (magnitude << 22) + (126u << 23);
    u32x16 is_small = (u32x16)(magnitude < 2u);
    u32x16 half = (u32x16)(magnitude == 1u) & 0x3F000000u;
    return lanes_from_bits((is_small & half) | (~is_small & normal) | sign);
}

static inline float weight_scale_at(const struct weight *weight, int64_t index) {
    const unsigned char *scales = weight->scales;
    if (weight->scale_dtype == DTYPE_F8_E8M0) {
        return e8m0_decode(scales[index]);
    }
    float scale;
    memcpy(&scale, scales + 4 * index, sizeof scale);
    return scale;
}

static inline void weight_row_decode_fp8_lanes(const struct weight *weight, int64_t row, float *out) {
    const uint8_t *codes = (const uint8_t *)weight->data + row * weight->columns;
    int64_t blocks = (weight->columns + WEIGHT_FP8_BLOCK - 1) / WEIGHT_FP8_BLOCK;
    for (int64_t i = 0; i < weight->columns; i += LANES) {
        float scale = weight_scale_at(weight, row / WEIGHT_FP8_BLOCK * blocks + i / WEIGHT_FP8_BLOCK);
        uint8_t part[LANES] = {0};
        const uint8_t *from = codes + i;
        if (weight->columns - i < LANES) {
            memcpy(part, from, (size_t)(weight->columns - i));
            from = part;
        }
        lanes_store(out + i, lanes_decode_e4m3(from) * scale);
    }
}

/* A group of 32 columns is sixteen bytes: even columns in the low nibbles, odd ones in the high. */
static inline void weight_row_decode_fp4_lanes(const struct weight *weight, int64_t row, float *out) {
    const uint8_t *codes = (const uint8_t *)weight->data + row * (weight->columns / 2);
    int64_t groups = weight->columns / WEIGHT_FP4_GROUP;
    for (int64_t group = 0; group < groups; group++) {
        float scale = weight_scale_at(weight, row * groups + group);
        u8x16 bytes;
        memcpy(&bytes, codes + group * LANES, sizeof bytes);
        u32x16 pair = __builtin_convertvector(bytes, u32x16);
        f32x16 even = lanes_decode_e2m1(pair & 15u) * scale;
        f32x16 odd = lanes_decode_e2m1(pair >> 4) * scale;
        float *to = out + group * WEIGHT_FP4_GROUP;
        lanes_store(
            to, __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
        lanes_store(to + LANES, __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                        29, 14, 30, 15, 31));
    }
}

/* One row to [columns] floats; `out` has room for whole vectors, which are padded with zeros. */
static inline void weight_row_decode_lanes(const struct weight *weight, int64_t row, float *out) {
    if (weight->format == WEIGHT_FP8) {
        weight_row_decode_fp8_lanes(weight, row, out);
        return;
    }
    if (weight->format == WEIGHT_FP4) {
        weight_row_decode_fp4_lanes(weight, row, out);
        return;
    }
    const char *data =
        (const char *)weight->data + (size_t)(row * weight->columns) * dtype_bytes(weight->dtype);
    int64_t whole = weight->columns - weight->columns % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes_store(out + i, lanes_read(weight->dtype, data, i));
    }
    if (whole < weight->columns) {
        lanes_store(out + whole, lanes_read_part(weight->dtype, data, whole, weight->columns - whole));
    }
}

#endif
