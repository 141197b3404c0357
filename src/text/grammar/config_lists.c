/* All lists lie behind each other in one array. */
#include "text/grammar/config_lists.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void config_lists_deinit(struct config_lists *lists) {
    free(lists->items);
    free(lists->lists);
    free(lists->slots);
    *lists = (struct config_lists){0};
}

struct config_span config_lists_get(const struct config_lists *lists, uint32_t list) {
    return (struct config_span){lists->items + lists->lists[list].offset, lists->lists[list].count};
}

static uint32_t hash_items(const struct config *items, uint32_t count) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ items[i].state) * 0x9E3779B97F4A7C15u;
        hash = (hash ^ hash >> 29 ^ items[i].frame) * 0x100000001B3u;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

static uint32_t find_slot(const struct config_lists *lists, const struct config *items, uint32_t count) {
    uint32_t slot = hash_items(items, count) & (lists->slot_count - 1);
    for (;; slot = (slot + 1) & (lists->slot_count - 1)) {
        uint32_t list = lists->slots[slot];
        if (list == UINT32_MAX) {
            return slot;
        }
        struct config_span span = config_lists_get(lists, list);
        if (span.count == count && (count == 0 || memcmp(span.items, items, count * sizeof *items) == 0)) {
            return slot;
        }
    }
}

static int grow_slots(struct config_lists *lists) {
    uint32_t slot_count = lists->slot_count == 0 ? 256 : 2 * lists->slot_count;
    uint32_t *slots = malloc(slot_count * sizeof *slots);
    if (slots == NULL) {
        return 0;
    }
    free(lists->slots);
    lists->slots = slots;
    lists->slot_count = slot_count;
    memset(slots, 0xFF, slot_count * sizeof *slots);
    for (uint32_t i = 0; i < lists->list_count; i++) {
        struct config_span span = config_lists_get(lists, i);
        slots[find_slot(lists, span.items, span.count)] = i;
    }
    return 1;
}

static int make_room(struct config_lists *lists, uint32_t item_count) {
    if (2 * (lists->list_count + 1) > lists->slot_count && !grow_slots(lists)) {
        return 0;
    }
    if (lists->list_count == lists->list_capacity) {
        uint32_t capacity = lists->list_capacity == 0 ? 64 : 2 * lists->list_capacity;
        struct config_list *grown = realloc(lists->lists, capacity * sizeof *grown);
        if (grown == NULL) {
            return 0;
        }
        lists->lists = grown;
        lists->list_capacity = capacity;
    }
    if (lists->item_count + item_count > lists->item_capacity) {
        size_t capacity = 2 * (lists->item_count + item_count) + 64;
        struct config *grown = realloc(lists->items, capacity * sizeof *grown);
        if (grown == NULL) {
            return 0;
        }
        lists->items = grown;
        lists->item_capacity = capacity;
    }
    return 1;
}

uint32_t config_lists_find(struct config_lists *lists, const struct config *items, uint32_t count) {
    if (!make_room(lists, count)) {
        return UINT32_MAX;
    }
    uint32_t slot = find_slot(lists, items, count);
    if (lists->slots[slot] != UINT32_MAX) {
        return lists->slots[slot];
    }
    uint32_t list = lists->list_count++;
    lists->slots[slot] = list;
    lists->lists[list] = (struct config_list){lists->item_count, count};
    for (uint32_t i = 0; i < count; i++) {
        lists->items[lists->item_count++] = items[i];
    }
    return list;
}

static uint64_t order_of(struct config config) {
    return (uint64_t)config.state << 32 | config.frame;
}

/* The end of the ascending run that begins at `first`. */
static uint32_t run_end(const struct config *items, uint32_t first, uint32_t count) {
    uint32_t end = first + 1;
    while (end < count && order_of(items[end - 1]) <= order_of(items[end])) {
        end++;
    }
    return end;
}

static void merge_runs(const struct config *items, uint32_t first, uint32_t middle, uint32_t end,
                       struct config *out) {
    uint32_t left = first;
    uint32_t right = middle;
    for (uint32_t i = first; i < end; i++) {
        bool is_left = right == end || (left < middle && order_of(items[left]) <= order_of(items[right]));
        out[i] = is_left ? items[left++] : items[right++];
    }
}

/* Merges neighbouring runs; false if there was but one. */
static bool merge_all_runs(struct config *items, uint32_t count, struct config *spare) {
    if (run_end(items, 0, count) == count) {
        return false;
    }
    for (uint32_t first = 0, end = 0; first < count; first = end) {
        uint32_t middle = run_end(items, first, count);
        end = middle < count ? run_end(items, middle, count) : count;
        merge_runs(items, first, middle, end, spare);
    }
    memcpy(items, spare, count * sizeof *items);
    return true;
}

/* What comes is mostly a few sorted lists, one behind the other. */
uint32_t config_sort(struct config *items, uint32_t count, struct config *spare) {
    uint32_t kept = 0;
    while (count > 1 && merge_all_runs(items, count, spare)) {
    }
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || order_of(items[kept - 1]) != order_of(items[i])) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

size_t config_lists_bytes(const struct config_lists *lists) {
    return lists->item_capacity * sizeof *lists->items + lists->list_capacity * sizeof *lists->lists +
           lists->slot_count * sizeof *lists->slots;
}
