/*
 * Pseudo-random weights that are a function of a tensor's name and an element's index (spec deepseek-v4 A.1).
 *
 * Any part of any tensor can be made on its own, in any order, by any thread.
 */
#ifndef SLUICE_TOOLS_WEIGHT_GENERATOR_H
#define SLUICE_TOOLS_WEIGHT_GENERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tools/weight_loops.h"
#include "weights/tensor_spec.h"

/* One tensor's recipe; refers to nothing outside itself but the spec. */
struct weight_generator {
    const struct tensor_spec *spec;
    const struct weight_loops *loops;
    uint64_t name_hash;
    uint64_t scale_hash; /* FP8 and FP4 matrices: of the scales' name */
    int scale_top;       /* matrices and their scales: the largest scale byte */
    unsigned scale_span; /* number of different scale bytes, 2 or 3 */
    double offset, gain; /* value = offset + gain * v */
    bool rounds_to_bf16; /* before it is stored in the tensor's type */
};

/*
 * Prepares the tensor list->specs[index], which must outlive the generator. UNSUPPORTED names a tensor for
 * which A.1 has no formula in its type.
 */
enum status weight_generator_init(struct weight_generator *generator, const struct tensor_spec_list *list,
                                  size_t index);

/* Makes `byte_count` bytes of the tensor from `first_byte` on; both are multiples of the element size. */
void weight_generator_fill(const struct weight_generator *generator, size_t first_byte, size_t byte_count,
                           unsigned char *out);

#endif
