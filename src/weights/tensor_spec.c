/* Growth by doubling inside the arena; the old copies stay until the arena goes. */
#include "weights/tensor_spec.h"

#include <string.h>

enum status tensor_spec_list_add(struct tensor_spec_list *list, size_t *index) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 256 : list->capacity * 2;
        struct tensor_spec *specs = ARENA_NEW(list->arena, struct tensor_spec, capacity);
        CHECK_MEMORY(specs);
        if (list->count > 0) {
            memcpy(specs, list->specs, list->count * sizeof *specs);
        }
        list->specs = specs;
        list->capacity = capacity;
    }
    list->specs[list->count] =
        (struct tensor_spec){.placement_unit = 1, .leaf_count = 1, .layer = -1, .expert = -1, .partner = -1};
    *index = list->count++;
    return STATUS_OK;
}
