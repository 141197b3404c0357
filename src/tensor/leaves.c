/* The tree is walked once with the empty leaves in it, to see which additions are left without them. */
#include "tensor/leaves.h"

#include <assert.h>
#include <stdbool.h>

struct leaves leaves_whole(int64_t columns, int count) {
    return (struct leaves){.whole_columns = columns, .whole_count = count, .count = count};
}

struct leaves leaves_part(const struct leaves *whole, int rank, int rank_count) {
    assert(whole->count % rank_count == 0);
    struct leaves part = *whole;
    part.count = whole->count / rank_count;
    part.first = whole->first + rank * part.count;
    return part;
}

int64_t leaf_first_column(const struct leaves *leaves, int leaf) {
    int64_t blocks = (leaves->whole_columns + LEAF_BLOCK - 1) / LEAF_BLOCK;
    int64_t column = leaf * blocks / leaves->whole_count * LEAF_BLOCK;
    return column < leaves->whole_columns ? column : leaves->whole_columns;
}

int64_t leaves_columns(const struct leaves *leaves) {
    return leaf_first_column(leaves, leaves->first + leaves->count) -
           leaf_first_column(leaves, leaves->first);
}

/* Pairs of nodes that are complete once `leaf` is there; behind the last leaf all that is left is added. */
static int node_count_closed_by(int leaf, int leaf_count) {
    int closed = 0;
    int nodes = leaf;
    if (leaf + 1 == leaf_count) {
        for (; nodes > 0; nodes &= nodes - 1) {
            closed++;
        }
        return closed;
    }
    for (; nodes % 2 == 1; nodes /= 2) {
        closed++;
    }
    return closed;
}

struct leaf_plan leaf_plan_make(const struct leaves *leaves, int64_t columns) {
    if (leaves->count <= 1) {
        return (struct leaf_plan){.step_count = 1, .steps = {{0, columns, 0}}};
    }
    bool has_columns[LEAF_STACK_MAX]; /* per node that waits */
    int depth = 0;
    struct leaf_plan plan = {.step_count = 0};
    int64_t start = leaf_first_column(leaves, leaves->first);
    assert(leaves->count <= LEAF_COUNT_MAX && columns == leaves_columns(leaves));
    for (int leaf = 0; leaf < leaves->count; leaf++) {
        int64_t first = leaf_first_column(leaves, leaves->first + leaf) - start;
        int64_t end = leaf_first_column(leaves, leaves->first + leaf + 1) - start;
        has_columns[depth++] = first < end;
        if (first < end) {
            plan.steps[plan.step_count++] = (struct leaf_step){first, end, 0};
        }
        for (int closed = node_count_closed_by(leaf, leaves->count); closed > 0; closed--) {
            depth--;
            if (has_columns[depth] && has_columns[depth - 1]) {
                plan.steps[plan.step_count - 1].merge_count++;
            }
            has_columns[depth - 1] = has_columns[depth] || has_columns[depth - 1];
        }
    }
    assert(depth == 1);
    plan.step_count += plan.step_count == 0; /* no columns: a sum of nothing */
    return plan;
}
