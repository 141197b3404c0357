/*
 * How a row is stored, of a sequence's state (spec deepseek-v4 5.1) or on its way to another rank.
 *
 * FP8 rows hold e4m3 codes of the leading channels with one E8M0 scale per block of them, padded to 8 bytes,
 * then the trailing (rotary) channels in bf16; FP4 rows hold e2m1 codes, then one E8M0 scale per 32 channels.
 * Both keep exactly what ACT8 and ACT4 leave of a value: encoding a decoded row changes no value.
 */
#ifndef SLUICE_TENSOR_ROW_LAYOUT_H
#define SLUICE_TENSOR_ROW_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum row_encoding { ROW_F32, ROW_FP8, ROW_FP4 };

struct row_layout {
    enum row_encoding encoding;
    int64_t width;       /* channels */
    int64_t plain_width; /* ROW_FP8: trailing channels kept in bf16; else 0 */
    int64_t block_width; /* ROW_FP8: channels that share a scale; else 0 */
};

/* Bytes of one row. */
size_t row_layout_bytes(const struct row_layout *layout);

/* Of a ROW_FP8 row: how many scales follow the codes, and where the bf16 channels start. */
int64_t row_layout_scale_count(const struct row_layout *layout);
size_t row_layout_plain_offset(const struct row_layout *layout);

/* Stores [width] floats; reads them back. Rows need no alignment. */
void row_encode(const struct row_layout *layout, const float *values, void *row);
void row_decode(const struct row_layout *layout, const void *row, float *values);

#endif
