/* Doubling storage. */
#include "text/token_list.h"

#include <stdlib.h>

void token_list_deinit(struct token_list *list) {
    free(list->ids);
    *list = (struct token_list){0};
}

enum status token_list_reserve(struct token_list *list, size_t extra) {
    if (extra <= list->capacity - list->count) {
        return STATUS_OK;
    }
    CHECK(extra <= SIZE_MAX / sizeof(int32_t) / 4 - list->count, STATUS_OUT_OF_MEMORY, "out of memory");
    size_t capacity = list->capacity == 0 ? 64 : list->capacity;
    while (capacity < list->count + extra) {
        capacity *= 2;
    }
    int32_t *ids = realloc(list->ids, capacity * sizeof *ids);
    CHECK_MEMORY(ids);
    list->ids = ids;
    list->capacity = capacity;
    return STATUS_OK;
}

enum status token_list_append(struct token_list *list, int32_t id) {
    TRY(token_list_reserve(list, 1));
    list->ids[list->count++] = id;
    return STATUS_OK;
}
