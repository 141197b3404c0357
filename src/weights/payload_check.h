/*
 * Values that no sound checkpoint holds: NaN codes and scales, numbers that are not finite, scales that are
 * not positive, expert ids out of range. Reads mapped bytes of any alignment. Any thread.
 */
#ifndef SLUICE_WEIGHTS_PAYLOAD_CHECK_H
#define SLUICE_WEIGHTS_PAYLOAD_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "weights/tensor_spec.h"

struct payload_problem {
    const char *text;   /* what is wrong with the value, a static string: "is not finite" */
    size_t first_index; /* row-major index of the first such element */
    size_t count;       /* such elements */
};

/*
 * Looks at all `bytes` of a tensor stored as `dtype`; role and limit come from `spec` (NULL: plain numbers).
 * Returns whether something is wrong; `out` is filled only then.
 */
bool payload_find_problem(const struct tensor_spec *spec, enum dtype dtype, const unsigned char *data,
                          size_t bytes, struct payload_problem *out);

#endif
