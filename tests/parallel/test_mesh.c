/* Ranks and groups: (G-2) the worked example of spec parallelism B.1, and what must hold for every shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/mesh.h"

enum { RANKS_MAX = 512, GROUP_COUNT = MESH_GROUP_EXPERT + 1 };

static void expect_group(const struct mesh_shape *shape, enum mesh_group group, int rank, const int *expected,
                         int count) {
    int ranks[RANKS_MAX];
    assert_int_equal(mesh_group_size(shape, group), count);
    mesh_group_ranks(shape, group, rank, ranks);
    assert_memory_equal(ranks, expected, (size_t)count * sizeof *ranks);
}

/* D=2, P=2, C=1, T=2. */
static void the_worked_example_holds(void **state) {
    (void)state;
    const struct mesh_shape shape = {2, 2, 1, 2, true};
    static const int tensor[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
    static const int pipeline[][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}};
    static const int data[][2] = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
    static const int expert[][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
    assert_int_equal(mesh_rank_count(&shape), 8);
    for (int g = 0; g < 4; g++) {
        for (int i = 0; i < 2; i++) {
            expect_group(&shape, MESH_GROUP_TENSOR, tensor[g][i], tensor[g], 2);
            expect_group(&shape, MESH_GROUP_PIPELINE, pipeline[g][i], pipeline[g], 2);
            expect_group(&shape, MESH_GROUP_DATA, data[g][i], data[g], 2);
            expect_group(&shape, MESH_GROUP_EXPERT, expert[g / 2][2 * (g % 2) + i], expert[g / 2], 4);
        }
    }
    struct mesh_place place = mesh_place_of(&shape, 4);
    assert_int_equal(place.data, 1);
    assert_int_equal(place.pipeline, 0);
    assert_int_equal(place.tensor, 0);
    assert_int_equal(place.expert, 2);
}

/* The formula of G-1, written out here. */
static int rank_by_formula(const struct mesh_shape *shape, const struct mesh_place *place) {
    return ((place->data * shape->pipeline + place->pipeline) * shape->context + place->context) *
               shape->tensor +
           place->tensor;
}

/* Members agree on their group, each finds itself in it, and nobody is in two. */
static void expect_partition(const struct mesh_shape *shape, enum mesh_group group) {
    int seen[RANKS_MAX] = {0};
    int count = mesh_rank_count(shape);
    int size = mesh_group_size(shape, group);
    for (int rank = 0; rank < count; rank++) {
        int own[RANKS_MAX];
        mesh_group_ranks(shape, group, rank, own);
        int index = mesh_group_index(shape, group, rank);
        assert_in_range(index, 0, size - 1);
        assert_int_equal(own[index], rank);
        seen[rank] += index == 0;
        for (int i = 0; i < size; i++) {
            int theirs[RANKS_MAX];
            mesh_group_ranks(shape, group, own[i], theirs);
            assert_memory_equal(own, theirs, (size_t)size * sizeof *own);
            seen[own[i]] += index == 0 && i > 0;
        }
    }
    for (int rank = 0; rank < count; rank++) {
        assert_int_equal(seen[rank], 1);
    }
}

static void expect_sound(const struct mesh_shape *shape) {
    int count = mesh_rank_count(shape);
    assert_int_equal(count, shape->data * shape->pipeline * shape->context * shape->tensor);
    for (int rank = 0; rank < count; rank++) {
        struct mesh_place place = mesh_place_of(shape, rank);
        assert_in_range(place.tensor, 0, shape->tensor - 1);
        assert_in_range(place.context, 0, shape->context - 1);
        assert_in_range(place.pipeline, 0, shape->pipeline - 1);
        assert_in_range(place.data, 0, shape->data - 1);
        assert_int_equal(rank_by_formula(shape, &place), rank);
        assert_int_equal(mesh_rank_of(shape, &place), rank);
        assert_int_equal(place.expert,
                         (place.data * shape->context + place.context) * shape->tensor + place.tensor);
    }
    for (int group = 0; group < GROUP_COUNT; group++) {
        expect_partition(shape, (enum mesh_group)group);
    }
}

static void groups_partition_the_ranks_of_every_shape(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4};
    for (int i = 0; i < 256; i++) {
        const struct mesh_shape shape = {sizes[i % 4], sizes[i / 4 % 4], sizes[i / 16 % 4], sizes[i / 64],
                                         i % 2 == 0};
        expect_sound(&shape);
    }
    const struct mesh_shape large[] = {{64, 1, 1, 8, true}, {1, 64, 1, 8, false}, {8, 4, 1, 16, true}};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        expect_sound(&large[i]);
    }
}

static void one_rank_is_alone_in_every_group(void **state) {
    (void)state;
    const struct mesh_shape shape = mesh_shape_single();
    static const int itself[] = {0};
    assert_int_equal(mesh_rank_count(&shape), 1);
    assert_false(shape.has_expert_parallelism);
    for (int group = 0; group < GROUP_COUNT; group++) {
        expect_group(&shape, (enum mesh_group)group, 0, itself, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_holds),
        cmocka_unit_test(groups_partition_the_ranks_of_every_shape),
        cmocka_unit_test(one_rank_is_alone_in_every_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
