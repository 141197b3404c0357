/* The policy table of the numerics modes. */
#include "ops/numerics.h"

#include "tensor/quantize.h"

enum dtype numerics_activation_dtype(enum numerics numerics) {
    return numerics == NUMERICS_IDEAL ? DTYPE_F32 : DTYPE_BF16;
}

struct row_layout numerics_row_layout(enum numerics numerics, enum row_kind kind, int64_t width,
                                      int64_t plain_width) {
    struct row_layout layout = {.encoding = ROW_F32, .width = width};
    if (numerics == NUMERICS_NATIVE && kind == ROW_KIND_KV) {
        layout.encoding = ROW_FP8;
        layout.plain_width = plain_width;
        layout.block_width = ACT8_KV_BLOCK;
    } else if (numerics == NUMERICS_NATIVE && kind == ROW_KIND_INPUT) {
        layout.encoding = ROW_FP8;
        layout.block_width = ACT8_LINEAR_BLOCK;
    } else if (numerics == NUMERICS_NATIVE && kind == ROW_KIND_INDEX) {
        layout.encoding = ROW_FP4;
    }
    return layout;
}

const char *numerics_name(enum numerics numerics) {
    return numerics == NUMERICS_IDEAL ? "ideal" : "native";
}
