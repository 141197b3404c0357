/*
 * Sorted lists of places in a grammar, each kept once: equal lists have equal numbers.
 *
 * A place is a state and what comes behind its rule: a frame, the number of a list of places to go on from.
 * One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_CONFIG_LISTS_H
#define SLUICE_TEXT_GRAMMAR_CONFIG_LISTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "text/grammar/chunk_table.h"

struct config {
    uint32_t state;
    uint32_t frame;
};

struct config_span {
    const struct config *items; /* valid as long as the lists */
    uint32_t count;
};

struct config_lists {
    struct arena items;
    struct chunk_table lists; /* by list: struct config_list */
    struct chunk_table heads; /* by bucket: the first list in it, or UINT32_MAX */
    uint32_t list_count;
    uint32_t bucket_count; /* grows by one at a time */
};

struct config_list {
    struct config_span span;
    uint32_t hash;
    uint32_t next; /* in its bucket, or UINT32_MAX */
};

void config_lists_init(struct config_lists *lists);
void config_lists_deinit(struct config_lists *lists);

/* The number of the list, which is added if it is new; UINT32_MAX if memory is out. */
uint32_t config_lists_find(struct config_lists *lists, const struct config *items, uint32_t count);

static inline struct config_span config_lists_get(const struct config_lists *lists, uint32_t list) {
    return ((const struct config_list *)chunk_table_at(&lists->lists, list))->span;
}

/* Sorts and drops what is twice; returns how many are left. `spare` has room for as many. */
uint32_t config_sort(struct config *items, uint32_t count, struct config *spare);

size_t config_lists_bytes(const struct config_lists *lists);

#endif
