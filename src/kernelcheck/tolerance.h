/*
 * How near a kernel must come to the reference, and the comparison of one output row by row.
 *
 * EXACT: the same bytes. ULP: each element within `limit` units in the last place of its type; an element
 * smaller than `floor` times the row's largest counts as that large, because a sum that cancels keeps the
 * error of its terms. NMSE: squared error over squared reference, within `limit` on average over a case's
 * rows (if they have enough elements for a mean) and within `floor` in each row.
 */
#ifndef SLUICE_KERNELCHECK_TOLERANCE_H
#define SLUICE_KERNELCHECK_TOLERANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

enum tolerance_class { TOLERANCE_EXACT, TOLERANCE_ULP, TOLERANCE_NMSE };

struct tolerance {
    enum tolerance_class kind;
    double limit;
    double floor;
    const char *reason; /* why the limit is what it is */
};

/* Rows of floats: `rows` pointers would cost more than they say, so (rows, columns) with flags. */
struct comparison {
    const float *got;       /* (rows, columns) */
    const float *wanted;    /* (rows, columns) */
    const bool *is_present; /* [rows]: whether the case writes the row at all */
    int64_t rows;
    int64_t columns;
    enum dtype dtype; /* F32 or BF16: what an ULP is */
};

struct difference {
    int64_t row;
    int64_t element;
    double got;
    double wanted;
    double measure; /* ULP or NMSE */
};

/*
 * Whether the rows are near enough. `worst` gets the largest measure either way, and on failure the place.
 * A NaN or infinity must be met by the same one. `by_value`: EXACT, but 0 equals -0.
 */
bool tolerance_holds(const struct tolerance *tolerance, bool by_value, const struct comparison *comparison,
                     struct difference *worst);

/* "exact", "4 ULP", "NMSE 1e-10": writes to text. */
void tolerance_describe(const struct tolerance *tolerance, char *text, size_t bytes);

#endif
