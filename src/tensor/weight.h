/*
 * A weight matrix as it lies in the checkpoint, with its block scales (spec deepseek-v4 2.5).
 *
 * Row-major [rows, columns] = [out, in]; y = W x. Vectors are matrices of one row. The bytes are device
 * memory, never repacked, and not aligned to the element type.
 */
#ifndef SLUICE_TENSOR_WEIGHT_H
#define SLUICE_TENSOR_WEIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/leaves.h"

enum weight_format {
    WEIGHT_PLAIN, /* F32 or BF16 elements, no scales */
    WEIGHT_FP8,   /* e4m3 codes, one scale per 128x128 block */
    WEIGHT_FP4,   /* e2m1 codes, two a byte (low nibble first), one scale per row and 32 columns */
};

enum { WEIGHT_FP8_BLOCK = 128, WEIGHT_FP4_GROUP = 32 };

struct weight {
    const char *name; /* official tensor name, for messages */
    enum weight_format format;
    enum dtype dtype; /* WEIGHT_PLAIN: F32 or BF16 */
    int64_t rows;
    int64_t columns; /* logical, also for FP4 */
    const void *data;
    const void *scales;
    enum dtype scale_dtype; /* F8_E8M0 or F32 */
    struct leaves leaves;   /* the order of sums over its columns; zero: plain sums */
};

/* Bytes of the matrix and of its scales. */
size_t weight_data_bytes(const struct weight *weight);
size_t weight_scale_bytes(const struct weight *weight);

/*
 * Decodes one row to floats [columns]: value times scale, exact for power-of-two scales.
 * For kernels: reads device memory.
 */
void weight_decode_row(const struct weight *weight, int64_t row, float *out);

/* BAD_SHAPE unless the weight has `leaf_limit` leaves at most, and their columns. */
enum status weight_expect_leaves(const struct weight *weight, const char *what, int leaf_limit);

/* BAD_SHAPE unless the weight is unquantised and has the given shape; -1 allows any length. */
enum status weight_expect_plain(const struct weight *weight, const char *what, int64_t rows, int64_t columns);

#endif
