/*
 * The order in which a matrix sums over its columns, where these can be cut between ranks (spec parallelism
 * 1.5, 6.1 L1).
 *
 * The columns form blocks of 128, the last one may be short. Leaf j of n holds blocks floor(j * blocks / n)
 * to floor((j + 1) * blocks / n); with few blocks some leaves are empty. Each leaf is summed apart and
 * becomes an fp32 number, never -0.0; an empty one is +0.0. Then neighbours are added pairwise, level by
 * level:
 * ((0+1)+(2+3))+...; the odd last one goes up as it is. If n and T are powers of two, a rank that holds
 * leaves i*n/T to (i+1)*n/T thus computes one node of the tree, and adding nodes of neighbouring ranks, then
 * of neighbouring pairs, gives the bits that one rank gives.
 */
#ifndef SLUICE_TENSOR_LEAVES_H
#define SLUICE_TENSOR_LEAVES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LEAF_BLOCK = 128,
    LEAF_COUNT_MAX = 16,
    LEAF_STACK_MAX = 5, /* sums that wait for their neighbour at once: log2(LEAF_COUNT_MAX) + 1 */
};

/* The leaves that a matrix holds: all, or those of a part. Zero: one plain sum. */
struct leaves {
    int64_t whole_columns; /* of the matrix that was not cut */
    int whole_count;
    int first;
    int count; /* 0 or 1: one plain sum */
};

/* Sum the columns, push the sum, then `merge_count` times replace the two sums on top by their sum. */
struct leaf_step {
    int64_t first_column;
    int64_t end_column;
    int merge_count;
};

/*
 * Steps of the leaves that are not empty: adding +0.0 to a sum that is not -0.0 changes nothing, so that
 * empty ones need no step. At least one step; the last leaves one sum, the result. Steps begin at multiples
 * of LEAF_BLOCK.
 */
struct leaf_plan {
    int step_count;
    struct leaf_step steps[LEAF_COUNT_MAX];
};

/*
 * Puts the sum of a step on a stack of `depth` sums, after the step's additions; returns the new depth.
 * Kernels that sum many results at once do the same with vectors.
 */
static inline int leaf_push(float *sums, int depth, float leaf, int merge_count) {
    for (; merge_count > 0; merge_count--) {
        leaf = sums[--depth] + leaf;
    }
    sums[depth] = leaf;
    return depth + 1;
}

/* Of a matrix that is not cut. */
struct leaves leaves_whole(int64_t columns, int count);

/* Of rank `rank` of `rank_count`, which divides the count of the whole. */
struct leaves leaves_part(const struct leaves *whole, int rank, int rank_count);

/* Whether these are a part: then a product with the matrix is one of several that are still to be added. */
static inline bool leaves_are_cut(const struct leaves *leaves) {
    return leaves->count < leaves->whole_count;
}

/* First column of leaf `leaf` (0 to whole_count) in the matrix that was not cut. */
int64_t leaf_first_column(const struct leaves *leaves, int leaf);

/* Columns that these leaves have. */
int64_t leaves_columns(const struct leaves *leaves);

/* The plan of a matrix with `columns` columns, which are those of the leaves. */
struct leaf_plan leaf_plan_make(const struct leaves *leaves, int64_t columns);

#endif
