/* Shape arithmetic and shape checks. */
#include "tensor/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

int64_t tensor_elements(const struct tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

size_t tensor_bytes(const struct tensor *tensor) {
    return (size_t)tensor_elements(tensor) * dtype_bytes(tensor->dtype);
}

int64_t tensor_row_elements(const struct tensor *tensor) {
    int64_t count = 1;
    for (int i = 1; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

struct tensor tensor_as_matrix(const struct tensor *tensor) {
    assert(tensor->rank >= 1);
    int64_t columns = tensor->shape[tensor->rank - 1];
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->rank; i++) {
        rows *= tensor->shape[i];
    }
    return (struct tensor){.dtype = tensor->dtype, .rank = 2, .shape = {rows, columns}, .data = tensor->data};
}

struct tensor tensor_reshape(const struct tensor *tensor, int64_t rows, int64_t columns) {
    assert(rows * columns == tensor_elements(tensor));
    return (struct tensor){.dtype = tensor->dtype, .rank = 2, .shape = {rows, columns}, .data = tensor->data};
}

struct tensor tensor_slice(const struct tensor *tensor, int64_t first, int64_t count) {
    assert(first >= 0 && count >= 0 && first + count <= tensor->shape[0]);
    struct tensor slice = *tensor;
    slice.shape[0] = count;
    slice.data =
        (char *)tensor->data + (size_t)(first * tensor_row_elements(tensor)) * dtype_bytes(tensor->dtype);
    return slice;
}

/* Writes a shape as "(3, any, 256)". */
static void print_shape(char *text, size_t bytes, int rank, const int64_t *shape) {
    size_t used = (size_t)snprintf(text, bytes, "(");
    for (int i = 0; i < rank && used < bytes; i++) {
        const char *comma = i > 0 ? ", " : "";
        int written = shape[i] < 0 ? snprintf(text + used, bytes - used, "%sany", comma)
                                   : snprintf(text + used, bytes - used, "%s%" PRId64, comma, shape[i]);
        used += (size_t)written;
    }
    if (used < bytes) {
        snprintf(text + used, bytes - used, ")");
    }
}

enum status tensor_expect(const struct tensor *tensor, const char *what, unsigned dtypes, int rank,
                          const int64_t *shape) {
    CHECK((unsigned)tensor->dtype < DTYPE_COUNT && (dtypes & DTYPE_BIT(tensor->dtype)) != 0, STATUS_BAD_SHAPE,
          "%s has element type %s, which this operation does not take", what, dtype_name(tensor->dtype));
    int is_same = tensor->rank == rank;
    for (int i = 0; is_same && i < rank; i++) {
        is_same = shape[i] < 0 || shape[i] == tensor->shape[i];
    }
    if (!is_same) {
        char got[96];
        char wanted[96];
        print_shape(got, sizeof got, tensor->rank, tensor->shape);
        print_shape(wanted, sizeof wanted, rank, shape);
        FAIL(STATUS_BAD_SHAPE, "%s has shape %s, expected %s", what, got, wanted);
    }
    CHECK(tensor->data != NULL || tensor_elements(tensor) == 0, STATUS_BAD_SHAPE, "%s has no memory", what);
    return STATUS_OK;
}
