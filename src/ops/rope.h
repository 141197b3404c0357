/*
 * Rotary position embedding, in place, on the trailing channels (spec deepseek-v4 4.5).
 *
 * x: (rows, heads, width), activation type; the last 2 * pair_count channels of each head are rotated as
 * interleaved pairs (2i, 2i+1) by angle position * frequency[i]; is_inverse rotates back. positions: device
 * I32 [rows]. The angle is the fp32 product; sine and cosine are reduced over its full range. Tolerance: ULP.
 */
#ifndef SLUICE_OPS_ROPE_H
#define SLUICE_OPS_ROPE_H

#include "ops/op_queue.h"
#include "ops/rope_table.h"
#include "tensor/tensor.h"

struct rope_args {
    struct tensor x;
    const int32_t *positions;
    const struct rope_table *table;
    bool is_inverse;
};

enum status op_rope(struct op_queue *queue, const struct rope_args *args);

#endif
