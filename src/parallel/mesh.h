/*
 * How ranks are laid out: data, pipeline and tensor parallelism, and the expert groups inside stages (spec
 * parallelism 1.1).
 *
 * rank = ((dp * P + pp) * C + cp) * T + tp: tensor parallelism is innermost, inside the fastest interconnect.
 * Context parallelism is reserved (C = 1). Sizes are at least 1 and ranks below mesh_rank_count: a shape is
 * checked before it comes here. Pure functions; any thread.
 */
#ifndef SLUICE_PARALLEL_MESH_H
#define SLUICE_PARALLEL_MESH_H

#include <stdbool.h>

struct mesh_shape {
    int data;                    /* D: replicas */
    int pipeline;                /* P: stages of each */
    int context;                 /* C: reserved, 1 */
    int tensor;                  /* T: ranks of a stage */
    bool has_expert_parallelism; /* whole experts on the ranks of a stage's expert group, else cut inside */
};

/* A rank's place. */
struct mesh_place {
    int data;
    int pipeline;
    int context;
    int tensor;
    int expert; /* in its expert group: (dp * C + cp) * T + tp */
};

/* Groups of ranks that talk to each other (G-2). */
enum mesh_group {
    MESH_GROUP_TENSOR,   /* T ranks: same dp, pp, cp */
    MESH_GROUP_PIPELINE, /* P ranks: same dp, cp, tp, in order of stages */
    MESH_GROUP_DATA,     /* D ranks: same pp, cp, tp */
    MESH_GROUP_EXPERT,   /* D * C * T ranks: same pp */
};

/* One rank alone. */
struct mesh_shape mesh_shape_single(void);

int mesh_rank_count(const struct mesh_shape *shape);
struct mesh_place mesh_place_of(const struct mesh_shape *shape, int rank);

/* The rank at a place; its `expert` is not looked at. */
int mesh_rank_of(const struct mesh_shape *shape, const struct mesh_place *place);

/* Size of the groups of a kind. */
int mesh_group_size(const struct mesh_shape *shape, enum mesh_group group);

/* Ranks of the group of a kind that `rank` is in, in the group's order: mesh_group_size of them. */
void mesh_group_ranks(const struct mesh_shape *shape, enum mesh_group group, int rank, int *ranks);

/* Index of `rank` in its group of a kind. */
int mesh_group_index(const struct mesh_shape *shape, enum mesh_group group, int rank);

#endif
