/*
 * A table by number that never moves what it has: growing takes as long for a large one as for a small one.
 *
 * Masks are worked out between two steps of an engine, and a table of a million bytes that is copied there is
 * the longest pause of all. One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_CHUNK_TABLE_H
#define SLUICE_TEXT_GRAMMAR_CHUNK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHUNK_TABLE_ENTRIES = 64,   /* of a chunk */
    CHUNK_TABLE_UNKNOWN = 0xFF, /* a fill that makes unknown numbers UINT32_MAX */
};

struct chunk_table {
    size_t entry_bytes;
    int fill;      /* all bytes of new entries */
    char **chunks; /* NULL: not made yet */
    uint32_t chunk_capacity;
    uint32_t made_count; /* chunks */
};

/* Frees the entries; the table is as it was set up. */
void chunk_table_clear(struct chunk_table *table);

/* Makes room for the entry. False: memory is out. */
bool chunk_table_reserve(struct chunk_table *table, uint32_t index);

/* An entry for which there is room. */
static inline void *chunk_table_at(const struct chunk_table *table, uint32_t index) {
    return table->chunks[index / CHUNK_TABLE_ENTRIES] + index % CHUNK_TABLE_ENTRIES * table->entry_bytes;
}

/* The entry, or NULL if there is no room for it. */
static inline void *chunk_table_entry(const struct chunk_table *table, uint32_t index) {
    uint32_t chunk = index / CHUNK_TABLE_ENTRIES;
    bool is_made = chunk < table->chunk_capacity && table->chunks[chunk] != NULL;
    return is_made ? chunk_table_at(table, index) : NULL;
}

size_t chunk_table_bytes(const struct chunk_table *table);

#endif
