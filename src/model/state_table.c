/* The growing table of state kinds. */
#include "model/state_table.h"

#include <string.h>

enum status state_table_add(struct state_table *table, const struct state_kind *kind, int *index) {
    if (table->count == table->capacity) {
        int capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
        struct state_kind *kinds = ARENA_NEW(table->arena, struct state_kind, (size_t)capacity);
        CHECK_MEMORY(kinds);
        if (table->count > 0) {
            memcpy(kinds, table->kinds, (size_t)table->count * sizeof *kinds);
        }
        table->kinds = kinds;
        table->capacity = capacity;
    }
    table->kinds[table->count] = *kind;
    *index = table->count++;
    return STATUS_OK;
}

int64_t state_kind_rows(const struct state_kind *kind, int64_t positions) {
    if (kind->shape == STATE_RING) {
        return kind->rows;
    }
    return (positions + kind->ratio - 1) / kind->ratio;
}
