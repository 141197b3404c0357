/*
 * Input rows by index: operations with an optional array `rows` take input row rows[i] for their row i, where
 * the streams of other tokens lie between the wanted ones.
 */
#ifndef SLUICE_OPS_ROW_INDEX_H
#define SLUICE_OPS_ROW_INDEX_H

#include <stddef.h>
#include <stdint.h>

/* The input row of output row `row`. For kernels: reads device memory. `rows` NULL: the same row. */
static inline int64_t row_index(const int32_t *rows, int64_t row) {
    return rows == NULL ? row : rows[row];
}

/* The same for the parts of rows, of which each row has `parts`. `rows` not NULL: divisions cost. */
static inline int64_t row_index_part(const int32_t *rows, int64_t part, int64_t parts) {
    return (int64_t)rows[part / parts] * parts + part % parts;
}

#endif
