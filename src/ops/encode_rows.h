/*
 * Stores activations as rows of a layout (spec deepseek-v4 4.6, ACT8 of the non-rotary channels in native
 * rows of the state).
 *
 * x: (rows, layout.width), activation type. out: device memory, rows * row_layout_bytes. Tolerance: exact.
 */
#ifndef SLUICE_OPS_ENCODE_ROWS_H
#define SLUICE_OPS_ENCODE_ROWS_H

#include "ops/op_queue.h"
#include "tensor/row_layout.h"
#include "tensor/tensor.h"

struct encode_rows_args {
    struct tensor x;
    struct row_layout layout;
    unsigned char *out;
};

enum status op_encode_rows(struct op_queue *queue, const struct encode_rows_args *args);

#endif
