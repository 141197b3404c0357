/* Sums of tile products: added as a weight's leaves want it, handed out by input. */
#ifndef SLUICE_BACKENDS_CPU_AMX_BF16_TILE_SUMS_H
#define SLUICE_BACKENDS_CPU_AMX_BF16_TILE_SUMS_H

#include "backends/cpu/matrix/matrix_kernel.h"

/* The additions of a step on a stack of `depth` arrays of `count` numbers; returns the new depth. */
static inline int tile_sums_merge(float *sums, int64_t count, int depth, int merge_count) {
    for (; merge_count > 0; merge_count--) {
        depth--;
        float *to = sums + (depth - 1) * count;
        for (int64_t i = 0; i < count; i++) {
            to[i] += to[count + i];
        }
    }
    return depth;
}

/*
 * Hands out the sums of one input, sums[row * pitch]. Flushed products can leave -0.0, which no leaf is: +0.0
 * at the root does.
 */
static inline void tile_sums_take(const float *sums, int64_t pitch, int64_t input, int64_t first_row,
                                  int64_t row_count, const struct matrix_sink *sink) {
    for (int64_t first = 0; first < row_count; first += MATRIX_SINK_ROWS) {
        int64_t rows = row_count - first < MATRIX_SINK_ROWS ? row_count - first : MATRIX_SINK_ROWS;
        float values[MATRIX_SINK_ROWS] = {0};
        for (int64_t i = 0; i < rows; i++) {
            values[i] = sums[(first + i) * pitch] + 0.0f;
        }
        sink->take(sink->context, input, first_row + first, rows, values);
    }
}

#endif
