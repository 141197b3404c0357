/* One loop per type; memcpy makes the unaligned accesses legal and costs nothing. */
#include "tensor/elements.h"

#include <assert.h>
#include <string.h>

#include "tensor/number_format.h"

static void decode_bf16(const unsigned char *stored, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, stored + 2 * i, sizeof bits);
        out[i] = bf16_decode(bits);
    }
}

void elements_decode(enum dtype dtype, const void *stored, int64_t count, float *out) {
    const unsigned char *bytes = stored;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(out, stored, (size_t)count * sizeof *out);
        break;
    case DTYPE_BF16:
        decode_bf16(bytes, count, out);
        break;
    case DTYPE_F8_E4M3:
        for (int64_t i = 0; i < count; i++) {
            out[i] = e4m3_decode(bytes[i]);
        }
        break;
    case DTYPE_F8_E8M0:
        for (int64_t i = 0; i < count; i++) {
            out[i] = e8m0_decode(bytes[i]);
        }
        break;
    default:
        assert(!"elements_decode: a type without a float form");
    }
}

void elements_encode(enum dtype dtype, const float *values, int64_t count, void *stored) {
    if (dtype == DTYPE_F32) {
        memcpy(stored, values, (size_t)count * sizeof *values);
        return;
    }
    assert(dtype == DTYPE_BF16);
    unsigned char *bytes = stored;
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = bf16_encode(values[i]);
        memcpy(bytes + 2 * i, &bits, sizeof bits);
    }
}

int64_t elements_integer(enum dtype dtype, const void *stored, int64_t index) {
    const unsigned char *bytes = stored;
    if (dtype == DTYPE_I64) {
        int64_t value;
        memcpy(&value, bytes + 8 * index, sizeof value);
        return value;
    }
    assert(dtype == DTYPE_I32);
    int32_t value;
    memcpy(&value, bytes + 4 * index, sizeof value);
    return value;
}
