/*
 * Which part of a tensor a rank has (spec parallelism 1.2 to 1.6).
 *
 * A cut is legal at multiples of a unit only: 128 rows or columns of FP8 blocks, heads, groups. Units that do
 * not divide are dealt out unevenly (G-9): part i of T holds the units from floor(i * n / T) up to, and
 * without, floor((i + 1) * n / T), so that ranks of a power of two hold whole leaves of a sum
 * (tensor/leaves.h).
 */
#ifndef SLUICE_PARALLEL_SHARD_H
#define SLUICE_PARALLEL_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "parallel/mesh.h"
#include "parallel/placement.h"

/* Stages' layer ranges and what else decides where tensors live. */
struct shard_layout {
    struct mesh_shape mesh;
    struct mesh_place place;  /* of the rank in question */
    const int *first_layers;  /* [P + 1]: stage s owns layers first_layers[s] to first_layers[s + 1] - 1 */
    bool has_draft;           /* drafting is on */
    int expert_count;         /* of a layer; dealt out in order over the expert group */
    int expert_copies;        /* places beyond the experts of a layer (E-1): some are on several ranks */
    bool has_movable_experts; /* every rank can read all experts, and starts with some of them */
    bool has_whole_shared_experts; /* experts that see every row are whole on every rank (spec 3.5) */
};

/* The part of an axis: `count` of its elements from `first`. */
struct shard_range {
    int64_t first;
    int64_t count;
};

/*
 * Part `index` of `parts` of `length` elements cut in units; the last unit may be short. With fewer units
 * than parts some parts are empty. Parts are in order and cover the axis.
 */
struct shard_range shard_cut(int64_t length, int64_t unit, int index, int parts);

/* Part of a vocabulary: rows per rank rounded up to a multiple of 64 (G-14); may be short or empty. */
struct shard_range shard_cut_vocabulary(int64_t size, int index, int parts);

/*
 * Rows of a step for rank `index` of `parts`: ceil(count / parts) each as long as they last (S-1). Only rows
 * that exist are counted, so that there is no padding: the last parts may be short or empty (S-8).
 */
struct shard_range shard_cut_rows(int64_t count, int index, int parts);

/* Experts of rank `index` of `parts`: in order, and no rank has over one more than another (E-1). */
struct shard_range shard_cut_experts(int64_t count, int index, int parts);

/*
 * Whether the stage of the rank holds tensors of `stage`. `layer` counts for STAGE_OF_LAYER only; there a
 * layer that no stage owns (-1) is nowhere.
 */
bool shard_is_on_stage(const struct shard_layout *layout, enum placement_stage stage, int layer);

#endif
