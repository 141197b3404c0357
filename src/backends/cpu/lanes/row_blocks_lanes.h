/*
 * Sharing out rows that are cheap each: in blocks, so that a block outweighs the cost of handing it out and
 * a step of little work stays on its thread.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_ROW_BLOCKS_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_ROW_BLOCKS_LANES_H

#include "ops/kernel_items.h"

/* What one block should touch: some microseconds of work. */
enum { ROW_BLOCK_BYTES = 32768 };

struct row_blocks {
    void (*row)(const void *args, int64_t row, void *workspace);
    const void *args;
    int64_t row_count;
    int64_t block_rows;
};

static inline void row_blocks_run_one(const void *context, int64_t index, void *workspace) {
    const struct row_blocks *blocks = context;
    int64_t first = index * blocks->block_rows;
    int64_t end = first + blocks->block_rows;
    for (int64_t row = first; row < end && row < blocks->row_count; row++) {
        blocks->row(blocks->args, row, workspace);
    }
}

/*
 * Calls row(args, index, workspace) for each row below `row_count`. `row_bytes`: what a row reads and writes,
 * or a figure that costs as much. Workspaces are as in kernel_for_each_item.
 */
static inline void lanes_for_each_row(const struct kernel_env *env, int64_t row_count, int64_t row_bytes,
                                      void (*row)(const void *args, int64_t row, void *workspace),
                                      const void *args, void *workspaces, size_t workspace_bytes) {
    int64_t block_rows = row_bytes >= ROW_BLOCK_BYTES ? 1 : ROW_BLOCK_BYTES / (row_bytes < 1 ? 1 : row_bytes);
    struct row_blocks blocks = {row, args, row_count, block_rows};
    kernel_for_each_item(env, (row_count + block_rows - 1) / block_rows, row_blocks_run_one, &blocks,
                         workspaces, workspace_bytes);
}

#endif
