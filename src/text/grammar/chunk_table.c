/* Chunks are made when one of their entries is first needed. */
#include "text/grammar/chunk_table.h"

#include <stdlib.h>
#include <string.h>

void chunk_table_clear(struct chunk_table *table) {
    for (uint32_t i = 0; i < table->chunk_capacity; i++) {
        free(table->chunks[i]);
    }
    free(table->chunks);
    *table = (struct chunk_table){.entry_bytes = table->entry_bytes, .fill = table->fill};
}

static bool reserve_chunk(struct chunk_table *table, uint32_t chunk) {
    if (chunk < table->chunk_capacity) {
        return true;
    }
    uint32_t capacity = 2 * chunk + 8;
    char **chunks = realloc(table->chunks, capacity * sizeof *chunks);
    if (chunks == NULL) {
        return false;
    }
    for (uint32_t i = table->chunk_capacity; i < capacity; i++) {
        chunks[i] = NULL;
    }
    table->chunks = chunks;
    table->chunk_capacity = capacity;
    return true;
}

bool chunk_table_reserve(struct chunk_table *table, uint32_t index) {
    uint32_t chunk = index / CHUNK_TABLE_ENTRIES;
    if (chunk < table->chunk_capacity && table->chunks[chunk] != NULL) {
        return true;
    }
    char *made = reserve_chunk(table, chunk) ? malloc(CHUNK_TABLE_ENTRIES * table->entry_bytes) : NULL;
    if (made == NULL) {
        return false;
    }
    memset(made, table->fill, CHUNK_TABLE_ENTRIES * table->entry_bytes);
    table->chunks[chunk] = made;
    table->made_count++;
    return true;
}

size_t chunk_table_bytes(const struct chunk_table *table) {
    return table->chunk_capacity * sizeof *table->chunks +
           table->made_count * CHUNK_TABLE_ENTRIES * table->entry_bytes;
}
