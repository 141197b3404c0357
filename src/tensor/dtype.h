/*
 * Element types of tensors, and their names in safetensors files.
 */
#ifndef SLUICE_TENSOR_DTYPE_H
#define SLUICE_TENSOR_DTYPE_H

#include <stddef.h>

/* X(name, bytes per element, safetensors name) */
#define DTYPE_LIST(X)        \
    X(F64, 8, "F64")         \
    X(F32, 4, "F32")         \
    X(F16, 2, "F16")         \
    X(BF16, 2, "BF16")       \
    X(F8_E4M3, 1, "F8_E4M3") \
    X(F8_E5M2, 1, "F8_E5M2") \
    X(F8_E8M0, 1, "F8_E8M0") \
    X(I64, 8, "I64")         \
    X(I32, 4, "I32")         \
    X(I16, 2, "I16")         \
    X(I8, 1, "I8")           \
    X(U64, 8, "U64")         \
    X(U32, 4, "U32")         \
    X(U16, 2, "U16")         \
    X(U8, 1, "U8")           \
    X(BOOL, 1, "BOOL")

enum dtype {
#define X(name, bytes, text) DTYPE_##name,
    DTYPE_LIST(X)
#undef X
        DTYPE_COUNT
};

/* Bit masks of types, for contracts that take several. */
#define DTYPE_BIT(dtype) (1u << (unsigned)(dtype))

size_t dtype_bytes(enum dtype dtype);

/* "BF16". A static string. */
const char *dtype_name(enum dtype dtype);

/* The type of that name, DTYPE_COUNT if there is none. */
enum dtype dtype_from_name(const char *name, size_t length);

#endif
