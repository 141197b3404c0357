/*
 * Comparing packed results (kernel_case_pack): with the reference by tolerance, with each other by bytes.
 */
#ifndef SLUICE_KERNELCHECK_CASE_COMPARE_H
#define SLUICE_KERNELCHECK_CASE_COMPARE_H

#include <stdbool.h>

#include "kernelcheck/kernel_case.h"

struct case_difference {
    int output;
    struct difference place; /* row of the plan */
};

/* Whether every output is near enough to the reference's; `out` gets the first that is not. */
enum status case_compare_near(const struct kernel_case *kernel_case, const unsigned char *got,
                              const unsigned char *wanted, bool *is_near, struct case_difference *out);

/*
 * Whether the results of `other` are those of `kernel_case`, byte by byte, in the rows that both hold and
 * write.
 */
enum status case_compare_bytes(const struct kernel_case *kernel_case, const unsigned char *wanted,
                               const struct kernel_case *other, const unsigned char *got, bool *is_same,
                               struct case_difference *out);

#endif
