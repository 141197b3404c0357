/*
 * (row, slot) pairs of a mixture of experts, sorted by expert: what a kernel that runs expert by expert
 * needs.
 */
#ifndef SLUICE_BACKENDS_CPU_MATRIX_MOE_PAIRS_H
#define SLUICE_BACKENDS_CPU_MATRIX_MOE_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "ops/moe_experts.h"

struct moe_pairs {
    int64_t active_count;  /* experts with at least one pair */
    const int32_t *active; /* [active_count] indices into the bank, ascending */
    const int32_t *first;  /* [active_count + 1] index into `pairs` of each active expert's first */
    const int32_t *pairs;  /* row * picks + slot, ascending within an expert */
    const int32_t *places; /* [row * picks + slot] index into `pairs`; -1: its expert is not in the bank */
};

/* Bytes that moe_pairs_sort needs. */
size_t moe_pairs_bytes(const struct moe_experts_args *args);

/* A stable counting sort in `memory` of the pairs whose experts are in the bank. */
struct moe_pairs moe_pairs_sort(const struct moe_experts_args *args, void *memory);

#endif
