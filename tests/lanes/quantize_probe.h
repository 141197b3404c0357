/* The inline functions of quantize_lanes.h, as compiled for one instruction set. */
#ifndef SLUICE_TESTS_LANES_QUANTIZE_PROBE_H
#define SLUICE_TESTS_LANES_QUANTIZE_PROBE_H

#include <stdint.h>

#include "tensor/dtype.h"

struct quantize_probe {
    const char *name;
    unsigned features; /* what the processor must have */
    void (*act8_row)(enum dtype dtype, const void *x, int64_t count, float *out);
    void (*act8_row_bf16)(const void *x_bf16, int64_t count, uint16_t *out);
    void (*e4m3_round)(const float *x, float *out); /* 16 values */
    void (*e4m3_encode)(const float *x, uint8_t *out);
    void (*e2m1_round)(const float *x, float *out);
    void (*e2m1_encode)(const float *x, uint8_t *out);
};

extern const struct quantize_probe quantize_probe_portable;
extern const struct quantize_probe quantize_probe_avx2;
extern const struct quantize_probe quantize_probe_avx512;

#endif
