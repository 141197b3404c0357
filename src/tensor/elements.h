/*
 * Runs of plain numbers between their stored type and float.
 *
 * Stored bytes need no alignment: tensors of official files have none.
 */
#ifndef SLUICE_TENSOR_ELEMENTS_H
#define SLUICE_TENSOR_ELEMENTS_H

#include <stdint.h>

#include "tensor/dtype.h"

/* Reads `count` elements of F32, BF16, F8_E4M3 or F8_E8M0 as floats (exact). */
void elements_decode(enum dtype dtype, const void *stored, int64_t count, float *out);

/* Writes `count` floats as F32, or as BF16 rounded to nearest even. */
void elements_encode(enum dtype dtype, const float *values, int64_t count, void *stored);

/* One integer of an I64 or I32 run. */
int64_t elements_integer(enum dtype dtype, const void *stored, int64_t index);

#endif
