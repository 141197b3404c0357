/*
 * State rows to bf16, in channel order (KV rows) or in the order of weight_decode.h (index rows).
 *
 * What FP8 and FP4 rows hold is exact in bf16. KV rows with NaN codes or scales take row_decode. The last 64
 * coded channels of a KV row may be fewer.
 */
#ifndef SLUICE_BACKENDS_CPU_AVX512_BF16_BF16_DECODE_H
#define SLUICE_BACKENDS_CPU_AVX512_BF16_BF16_DECODE_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/avx512_bf16/weight_decode.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"
#include "tensor/row_layout.h"

/* FP8 rows that bf16_decode_kv_row takes. */
static inline bool bf16_takes_kv_row(const struct row_layout *layout) {
    return layout->encoding == ROW_FP8 && layout->block_width == CHUNK && layout->width % 32 == 0;
}

static inline bool bf16_takes_index_row(const struct row_layout *layout) {
    return layout->encoding == ROW_FP4 && layout->width % CHUNK == 0;
}

/* Undoes the order that fp8_decode leaves: 128-bit parts 0 2 4 6, 1 3 5 7. */
static inline struct bf16_chunk bf16_in_order(struct bf16_chunk chunk) {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    return (struct bf16_chunk){_mm512_permutex2var_epi64(chunk.first, low, chunk.second),
                               _mm512_permutex2var_epi64(chunk.first, high, chunk.second)};
}

/* One FP8 row, [width] bf16 in channel order. `floats`: scratch of [width]. */
static inline void bf16_decode_kv_row(const struct fp8_table *table, const struct row_layout *layout,
                                      const unsigned char *row, float *floats, uint16_t *out) {
    int64_t coded = layout->width - layout->plain_width;
    __mmask64 is_special = 0;
    for (int64_t i = 0; i < coded; i += CHUNK) {
        int scale = row[coded + i / CHUNK];
        __mmask64 mask = coded - i < CHUNK ? ((__mmask64)1 << (coded - i)) - 1 : ~(__mmask64)0;
        is_special |= fp8_find_nan(row + i, mask) | (__mmask64)(scale > FP8_SCALE_LARGEST);
        __m512i lowered =
            _mm512_set1_epi16((short)((FP8_SCALE_LARGEST - scale) * (1 << BF16_EXPONENT_SHIFT)));
        struct bf16_chunk chunk = bf16_in_order(fp8_decode(table, row + i, mask, lowered));
        _mm512_mask_storeu_epi16(out + i, (__mmask32)mask, chunk.first);
        _mm512_mask_storeu_epi16(out + i + CHUNK / 2, (__mmask32)(mask >> 32), chunk.second);
    }
    memcpy(out + coded, row + row_layout_plain_offset(layout), (size_t)layout->plain_width * sizeof *out);
    if (is_special != 0) {
        row_decode(layout, row, floats);
        for (int64_t i = 0; i < coded; i++) {
            out[i] = bf16_encode(floats[i]);
        }
    }
}

/*
 * One FP4 row, [width] bf16: of each chunk the even channels, then the odd ones. With a NaN scale all are 0:
 * that scores what the ReLU makes of a NaN.
 */
static inline void bf16_decode_index_row(__m512i table, const struct row_layout *layout,
                                         const unsigned char *row, uint16_t *out) {
    const unsigned char *scales = row + layout->width / 2;
    bool is_broken = false;
    for (int64_t i = 0; i < layout->width; i += CHUNK) {
        uint16_t lowered[2];
        for (int group = 0; group < 2; group++) {
            int scale = scales[i / ACT4_BLOCK + group];
            is_broken |= scale > FP4_SCALE_LARGEST;
            lowered[group] = (uint16_t)((FP4_SCALE_LARGEST - scale) * (1 << BF16_EXPONENT_SHIFT));
        }
        struct bf16_chunk chunk = fp4_decode(table, row + i / 2, ~(__mmask32)0, fp4_spread_lowered(lowered));
        _mm512_storeu_si512(out + i, chunk.first);
        _mm512_storeu_si512(out + i + CHUNK / 2, chunk.second);
    }
    if (is_broken) {
        memset(out, 0, (size_t)layout->width * sizeof *out);
    }
}

#endif
