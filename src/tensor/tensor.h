/*
 * A dense tensor in device memory: contiguous, row-major, the last axis fastest.
 *
 * A struct tensor is a view: it owns nothing and is passed by value or const pointer.
 */
#ifndef SLUICE_TENSOR_TENSOR_H
#define SLUICE_TENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/dtype.h"

enum { TENSOR_AXES_MAX = 4 };

struct tensor {
    enum dtype dtype;
    int rank;
    int64_t shape[TENSOR_AXES_MAX];
    void *data; /* device memory */
};

int64_t tensor_elements(const struct tensor *tensor);
size_t tensor_bytes(const struct tensor *tensor);

/* Elements of one index of the first axis. */
int64_t tensor_row_elements(const struct tensor *tensor);

/* The same memory with all axes but the last folded into one: (rows, columns). */
struct tensor tensor_as_matrix(const struct tensor *tensor);

/* The same memory as (rows, columns); the element counts must agree. */
struct tensor tensor_reshape(const struct tensor *tensor, int64_t rows, int64_t columns);

/* A view of `count` indices of the first axis from `first`. */
struct tensor tensor_slice(const struct tensor *tensor, int64_t first, int64_t count);

/*
 * BAD_SHAPE unless the tensor has one of the types in `dtypes` and the given shape; -1 allows any length.
 * `what` names it in the sentence ("rms_norm: out").
 */
enum status tensor_expect(const struct tensor *tensor, const char *what, unsigned dtypes, int rank,
                          const int64_t *shape);

/* tensor_expect with the shape written in place: TENSOR_EXPECT(&a->out, "add: out", types, rows, width). */
#define TENSOR_EXPECT(tensor, what, dtypes, ...)                                                             \
    TRY(tensor_expect((tensor), (what), (dtypes), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                      (int64_t[]){__VA_ARGS__}))

/* Types that activations have: F32 in ideal numerics, BF16 in native. */
#define DTYPES_ACTIVATION (DTYPE_BIT(DTYPE_F32) | DTYPE_BIT(DTYPE_BF16))

#endif
