/*
 * What the indexer kernels of this backend share: everything but the scores.
 *
 * Rows go in waves, so that the scores of a few rows are held at a time, however long the context is. A
 * wave's scores are shared out by entries, not by rows: one row alone keeps all threads busy, and rows of one
 * sequence share decoded keys. Then each row of the wave chooses.
 */
#ifndef SLUICE_BACKENDS_CPU_INDEXER_WAVES_H
#define SLUICE_BACKENDS_CPU_INDEXER_WAVES_H

#include "ops/indexer_select.h"
#include "ops/kernel_items.h"

/* The most entries of a block. */
enum { INDEXER_BLOCK_ENTRIES = 256 };

/* Scores to make: of consecutive rows of one sequence, for consecutive entries. */
struct indexer_block {
    int64_t first_row;
    int64_t row_count;
    int64_t slot;
    int64_t first_entry;
    int64_t entry_count;
    float *scores; /* of the first row for the first entry */
    int64_t row_stride;
};

/*
 * How a kernel makes scores: all of the block. A score depends on its row and its entry only. scratch: as
 * many bytes as indexer_waves_run was told, 64-byte aligned.
 */
typedef void indexer_score(const struct indexer_select_args *args, const struct indexer_block *block,
                           void *scratch);

size_t indexer_waves_workspace(const struct indexer_select_args *args, unsigned thread_count,
                               size_t scratch_bytes);

enum status indexer_waves_run(const struct kernel_env *env, const struct indexer_select_args *args,
                              indexer_score *score, size_t scratch_bytes);

/* The encoded keys of the block's entries: [entry_count]. */
void indexer_list_keys(const struct indexer_select_args *args, const struct indexer_block *block,
                       const unsigned char **keys);

/* The row's head weights times the scale, rounded to their type: [heads]. */
void indexer_head_weights(const struct indexer_select_args *args, int64_t row, float *out);

#endif
