/* Row decoding of the three storage forms. */
#include "tensor/weight.h"

#include "tensor/elements.h"
#include "tensor/number_format.h"

static int64_t divide_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

size_t weight_data_bytes(const struct weight *weight) {
    int64_t elements = weight->rows * weight->columns;
    switch (weight->format) {
    case WEIGHT_PLAIN:
        return (size_t)elements * dtype_bytes(weight->dtype);
    case WEIGHT_FP8:
        return (size_t)elements;
    case WEIGHT_FP4:
        return (size_t)elements / 2;
    }
    return 0;
}

size_t weight_scale_bytes(const struct weight *weight) {
    int64_t scales = 0;
    if (weight->format == WEIGHT_FP8) {
        scales = divide_up(weight->rows, WEIGHT_FP8_BLOCK) * divide_up(weight->columns, WEIGHT_FP8_BLOCK);
    } else if (weight->format == WEIGHT_FP4) {
        scales = weight->rows * (weight->columns / WEIGHT_FP4_GROUP);
    }
    return (size_t)scales * dtype_bytes(weight->scale_dtype);
}

static float scale_at(const struct weight *weight, int64_t index) {
    float scale;
    const char *scales = weight->scales;
    elements_decode(weight->scale_dtype, scales + (size_t)index * dtype_bytes(weight->scale_dtype), 1,
                    &scale);
    return scale;
}

static void decode_fp8_row(const struct weight *weight, int64_t row, float *out) {
    const unsigned char *codes = (const unsigned char *)weight->data + row * weight->columns;
    int64_t blocks = divide_up(weight->columns, WEIGHT_FP8_BLOCK);
    int64_t first_scale = row / WEIGHT_FP8_BLOCK * blocks;
    for (int64_t block = 0; block < blocks; block++) {
        float scale = scale_at(weight, first_scale + block);
        int64_t end = (block + 1) * WEIGHT_FP8_BLOCK;
        end = end < weight->columns ? end : weight->columns;
        for (int64_t i = block * WEIGHT_FP8_BLOCK; i < end; i++) {
            out[i] = e4m3_decode(codes[i]) * scale;
        }
    }
}

static void decode_fp4_row(const struct weight *weight, int64_t row, float *out) {
    const unsigned char *codes = (const unsigned char *)weight->data + row * (weight->columns / 2);
    int64_t groups = weight->columns / WEIGHT_FP4_GROUP;
    for (int64_t group = 0; group < groups; group++) {
        float scale = scale_at(weight, row * groups + group);
        for (int64_t pair = 0; pair < WEIGHT_FP4_GROUP / 2; pair++) {
            int64_t byte = group * (WEIGHT_FP4_GROUP / 2) + pair;
            out[2 * byte] = e2m1_decode(codes[byte] & 15u) * scale;
            out[2 * byte + 1] = e2m1_decode(codes[byte] >> 4) * scale;
        }
    }
}

void weight_decode_row(const struct weight *weight, int64_t row, float *out) {
    switch (weight->format) {
    case WEIGHT_PLAIN:
        elements_decode(weight->dtype,
                        (const char *)weight->data +
                            (size_t)(row * weight->columns) * dtype_bytes(weight->dtype),
                        weight->columns, out);
        break;
    case WEIGHT_FP8:
        decode_fp8_row(weight, row, out);
        break;
    case WEIGHT_FP4:
        decode_fp4_row(weight, row, out);
        break;
    }
}

enum status weight_expect_leaves(const struct weight *weight, const char *what, int leaf_limit) {
    const struct leaves *leaves = &weight->leaves;
    CHECK(leaves->count >= 0 && leaves->count <= leaf_limit, STATUS_BAD_SHAPE,
          "%s: %s has %d leaves, the limit is %d", what, weight->name, leaves->count, leaf_limit);
    CHECK(leaves->count <= 1 || leaves_columns(leaves) == weight->columns, STATUS_BAD_SHAPE,
          "%s: %s has %lld columns, its leaves have %lld", what, weight->name, (long long)weight->columns,
          (long long)leaves_columns(leaves));
    return STATUS_OK;
}

enum status weight_expect_plain(const struct weight *weight, const char *what, int64_t rows,
                                int64_t columns) {
    CHECK(weight->format == WEIGHT_PLAIN, STATUS_BAD_SHAPE, "%s: %s is quantised", what, weight->name);
    CHECK((rows < 0 || weight->rows == rows) && (columns < 0 || weight->columns == columns), STATUS_BAD_SHAPE,
          "%s: %s has shape (%lld, %lld), expected (%lld, %lld)", what, weight->name, (long long)weight->rows,
          (long long)weight->columns, (long long)rows, (long long)columns);
    return STATUS_OK;
}
