/* Sizes and names from the one list. */
#include "tensor/dtype.h"

#include <string.h>

size_t dtype_bytes(enum dtype dtype) {
    static const unsigned char bytes_of[DTYPE_COUNT] = {
#define X(name, bytes, text) [DTYPE_##name] = (bytes),
        DTYPE_LIST(X)
#undef X
    };
    return bytes_of[dtype];
}

const char *dtype_name(enum dtype dtype) {
    static const char *const names[DTYPE_COUNT] = {
#define X(name, bytes, text) [DTYPE_##name] = (text),
        DTYPE_LIST(X)
#undef X
    };
    return names[dtype];
}

enum dtype dtype_from_name(const char *name, size_t length) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const char *candidate = dtype_name((enum dtype)i);
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) {
            return (enum dtype)i;
        }
    }
    return DTYPE_COUNT;
}
