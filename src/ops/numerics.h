/*
 * The two numerics modes, as a policy: which element type activations have, how state rows are stored, and
 * which entries of an operation run. Models and engine never branch on the mode.
 */
#ifndef SLUICE_OPS_NUMERICS_H
#define SLUICE_OPS_NUMERICS_H

#include "tensor/dtype.h"
#include "tensor/row_layout.h"

enum numerics {
    NUMERICS_IDEAL,  /* no activation rounding: f32 activations and state (golden vectors) */
    NUMERICS_NATIVE, /* the roundings the checkpoint was trained with (spec deepseek-v4 2.6, 4.12) */
    NUMERICS_COUNT
};

/* What a stored row holds; the numerics mode decides its bytes. */
enum row_kind {
    ROW_KIND_KV,    /* keys that are values too; trailing rotary channels stay unquantised */
    ROW_KIND_INDEX, /* keys of the indexer */
    ROW_KIND_FLOAT, /* f32 in every mode */
    ROW_KIND_INPUT, /* what a product with a quantised weight reads of its input (ops/linear.h) */
};

enum dtype numerics_activation_dtype(enum numerics numerics);

/* `plain_width`: trailing channels that are never quantised (ROW_KIND_KV only). */
struct row_layout numerics_row_layout(enum numerics numerics, enum row_kind kind, int64_t width,
                                      int64_t plain_width);

/* "ideal", "native". A static string. */
const char *numerics_name(enum numerics numerics);

#endif
