/*
 * Weight rows to floats on lanes: the values of weight_decode_row, exactly.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_WEIGHT_ROWS_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_WEIGHT_ROWS_LANES_H

#include "backends/cpu/lanes/decode_pieces.h"
#include "backends/cpu/lanes/lanes.h"
#include "tensor/number_format.h"
#include "tensor/weight.h"

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
        for (int64_t p = 0; p < LANES; p += PIECE_LANES) {
            piece_store(out + i + p, piece_decode_e4m3(piece_load_bytes(from + p)) * scale);
        }
    }
}

/* A group of 32 columns is sixteen bytes: even columns in the low nibbles, odd ones in the high. */
static inline void weight_row_decode_fp4_lanes(const struct weight *weight, int64_t row, float *out) {
    const uint8_t *codes = (const uint8_t *)weight->data + row * (weight->columns / 2);
    int64_t groups = weight->columns / WEIGHT_FP4_GROUP;
    for (int64_t group = 0; group < groups; group++) {
        float scale = weight_scale_at(weight, row * groups + group);
        uint8_t apart[WEIGHT_FP4_GROUP];
        for (int64_t i = 0; i < WEIGHT_FP4_GROUP / 2; i++) {
            uint8_t pair = codes[group * (WEIGHT_FP4_GROUP / 2) + i];
            apart[2 * i] = pair & 15u;
            apart[2 * i + 1] = pair >> 4;
        }
        for (int64_t p = 0; p < WEIGHT_FP4_GROUP; p += PIECE_LANES) {
            piece_store(out + group * WEIGHT_FP4_GROUP + p,
                        piece_decode_e2m1(piece_load_bytes(apart + p)) * scale);
        }
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
