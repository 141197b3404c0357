/*
 * Paged stores of entries for cases: pages in no order, none where the plan needs none.
 */
#ifndef SLUICE_KERNELCHECK_CASE_ENTRIES_H
#define SLUICE_KERNELCHECK_CASE_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernelcheck/kernel_case.h"
#include "ops/state_rows.h"

struct case_entries {
    struct state_rows store;
    size_t operand;       /* of the store's memory */
    const int32_t *pages; /* the page table in host memory */
};

/*
 * A store of NaNs with the pages that hold what the plan's rows can see or write: one entry per shape.ratio
 * positions, shape.page_rows of them a page (0: as many as 128 positions have). One page more belongs to
 * nobody. All other entries of the table lead to where no memory is.
 */
enum status case_add_entries(struct kernel_case *kernel_case, struct row_layout layout,
                             struct case_entries *out);

/* Stores what case_row_values gives for (id, sequence, entry) in all entries that a row can see. */
enum status case_fill_entries(struct kernel_case *kernel_case, const struct case_entries *entries,
                              unsigned id);

/* The row of the store's memory that holds an entry. */
int64_t case_entry_row(const struct case_entries *entries, int64_t slot, int64_t entry);

#endif
