/* A place is a number in mixed radix; a group varies one or more of its digits. */
#include "parallel/mesh.h"

#include <assert.h>

struct mesh_shape mesh_shape_single(void) {
    return (struct mesh_shape){.data = 1, .pipeline = 1, .context = 1, .tensor = 1};
}

int mesh_rank_count(const struct mesh_shape *shape) {
    return shape->data * shape->pipeline * shape->context * shape->tensor;
}

struct mesh_place mesh_place_of(const struct mesh_shape *shape, int rank) {
    struct mesh_place place;
    assert(rank >= 0 && rank < mesh_rank_count(shape));
    place.tensor = rank % shape->tensor;
    rank /= shape->tensor;
    place.context = rank % shape->context;
    rank /= shape->context;
    place.pipeline = rank % shape->pipeline;
    place.data = rank / shape->pipeline;
    place.expert = (place.data * shape->context + place.context) * shape->tensor + place.tensor;
    return place;
}

int mesh_rank_of(const struct mesh_shape *shape, const struct mesh_place *place) {
    int stage = place->data * shape->pipeline + place->pipeline;
    return (stage * shape->context + place->context) * shape->tensor + place->tensor;
}

int mesh_group_size(const struct mesh_shape *shape, enum mesh_group group) {
    switch (group) {
    case MESH_GROUP_TENSOR:
        return shape->tensor;
    case MESH_GROUP_PIPELINE:
        return shape->pipeline;
    case MESH_GROUP_DATA:
        return shape->data;
    case MESH_GROUP_EXPERT:
        return shape->data * shape->context * shape->tensor;
    }
    return 0;
}

/* Moves `place` to member `index` of its group. */
static void set_member(const struct mesh_shape *shape, enum mesh_group group, int index,
                       struct mesh_place *place) {
    switch (group) {
    case MESH_GROUP_TENSOR:
        place->tensor = index;
        break;
    case MESH_GROUP_PIPELINE:
        place->pipeline = index;
        break;
    case MESH_GROUP_DATA:
        place->data = index;
        break;
    case MESH_GROUP_EXPERT:
        place->tensor = index % shape->tensor;
        place->context = index / shape->tensor % shape->context;
        place->data = index / shape->tensor / shape->context;
        break;
    }
}

void mesh_group_ranks(const struct mesh_shape *shape, enum mesh_group group, int rank, int *ranks) {
    struct mesh_place place = mesh_place_of(shape, rank);
    int size = mesh_group_size(shape, group);
    for (int i = 0; i < size; i++) {
        set_member(shape, group, i, &place);
        ranks[i] = mesh_rank_of(shape, &place);
    }
}

int mesh_group_index(const struct mesh_shape *shape, enum mesh_group group, int rank) {
    struct mesh_place place = mesh_place_of(shape, rank);
    switch (group) {
    case MESH_GROUP_TENSOR:
        return place.tensor;
    case MESH_GROUP_PIPELINE:
        return place.pipeline;
    case MESH_GROUP_DATA:
        return place.data;
    case MESH_GROUP_EXPERT:
        return place.expert;
    }
    return 0;
}
