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

struct config {
    uint32_t state;
    uint32_t frame;
};

struct config_span {
    const struct config *items; /* valid until a list is added */
    uint32_t count;
};

struct config_lists {
    struct config *items;
    size_t item_count, item_capacity;
    struct config_list {
        size_t offset;
        uint32_t count;
    } * lists;
    uint32_t list_count, list_capacity;
    uint32_t *slots; /* open addressing: list or UINT32_MAX */
    uint32_t slot_count;
};

void config_lists_deinit(struct config_lists *lists);

/* The number of the list, which is added if it is new; UINT32_MAX if memory is out. */
uint32_t config_lists_find(struct config_lists *lists, const struct config *items, uint32_t count);

struct config_span config_lists_get(const struct config_lists *lists, uint32_t list);

/* Sorts and drops what is twice; returns how many are left. `spare` has room for as many. */
uint32_t config_sort(struct config *items, uint32_t count, struct config *spare);

size_t config_lists_bytes(const struct config_lists *lists);

#endif
