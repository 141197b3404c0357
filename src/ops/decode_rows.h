/*
 * Reads rows of a layout back as activations: what op_encode_rows stored.
 *
 * rows: device memory, rows * row_layout_bytes. out: (rows, layout.width), activation type: every value of an
 * FP8 or FP4 row is one of both types. Tolerance: exact.
 */
#ifndef SLUICE_OPS_DECODE_ROWS_H
#define SLUICE_OPS_DECODE_ROWS_H

#include "ops/op_queue.h"
#include "tensor/row_layout.h"
#include "tensor/tensor.h"

struct decode_rows_args {
    struct tensor out;
    struct row_layout layout;
    const unsigned char *rows;
};

enum status op_decode_rows(struct op_queue *queue, const struct decode_rows_args *args);

#endif
