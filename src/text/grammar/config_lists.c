/*
 * Lists are found by linear hashing (Litwin, 1980): with each list that is added one bucket is split, so that
 * adding takes as long however many there are.
 */
#include "text/grammar/config_lists.h"

#include <stdbool.h>
#include <string.h>

enum { ITEMS_BLOCK_BYTES = 1 << 15 };

void config_lists_init(struct config_lists *lists) {
    *lists = (struct config_lists){.lists = {.entry_bytes = sizeof(struct config_list)},
                                   .heads = {.entry_bytes = sizeof(uint32_t), .fill = CHUNK_TABLE_UNKNOWN}};
    arena_init(&lists->items, ITEMS_BLOCK_BYTES);
}

void config_lists_deinit(struct config_lists *lists) {
    arena_deinit(&lists->items);
    chunk_table_clear(&lists->lists);
    chunk_table_clear(&lists->heads);
    config_lists_init(lists);
}

static uint32_t hash_items(const struct config *items, uint32_t count) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ items[i].state) * 0x9E3779B97F4A7C15u;
        hash = (hash ^ hash >> 29 ^ items[i].frame) * 0x100000001B3u;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

/* Of the highest power of two that is not above the number of buckets, and of the next one, the remainder. */
static uint32_t bucket_of(const struct config_lists *lists, uint32_t hash) {
    uint32_t half = UINT32_C(1) << (31 - __builtin_clz(lists->bucket_count));
    uint32_t bucket = hash & (2 * half - 1);
    return bucket < lists->bucket_count ? bucket : bucket - half;
}

static struct config_list *list_at(const struct config_lists *lists, uint32_t list) {
    return chunk_table_at(&lists->lists, list);
}

static uint32_t *head_at(const struct config_lists *lists, uint32_t bucket) {
    return chunk_table_at(&lists->heads, bucket);
}

static void add_to_bucket(struct config_lists *lists, uint32_t list) {
    struct config_list *added = list_at(lists, list);
    uint32_t *head = head_at(lists, bucket_of(lists, added->hash));
    added->next = *head;
    *head = list;
}

/* Makes one bucket more, of lists of the one whose turn it is. False: memory is out. */
static bool split_bucket(struct config_lists *lists) {
    if (!chunk_table_reserve(&lists->heads, lists->bucket_count)) {
        return false;
    }
    lists->bucket_count++;
    uint32_t made = lists->bucket_count - 1;
    if (made == 0) {
        return true;
    }
    uint32_t *head = head_at(lists, made - (UINT32_C(1) << (31 - __builtin_clz(made))));
    uint32_t list = *head;
    *head = UINT32_MAX;
    while (list != UINT32_MAX) {
        uint32_t next = list_at(lists, list)->next;
        add_to_bucket(lists, list);
        list = next;
    }
    return true;
}

static bool is_equal(struct config_span span, const struct config *items, uint32_t count) {
    return span.count == count && (count == 0 || memcmp(span.items, items, count * sizeof *items) == 0);
}

static uint32_t add_list(struct config_lists *lists, const struct config *items, uint32_t count,
                         uint32_t hash) {
    struct config *copy = ARENA_NEW(&lists->items, struct config, count);
    if (copy == NULL || !chunk_table_reserve(&lists->lists, lists->list_count) || !split_bucket(lists)) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = items[i];
    }
    uint32_t list = lists->list_count++;
    *list_at(lists, list) = (struct config_list){.span = {copy, count}, .hash = hash};
    add_to_bucket(lists, list);
    return list;
}

uint32_t config_lists_find(struct config_lists *lists, const struct config *items, uint32_t count) {
    uint32_t hash = hash_items(items, count);
    uint32_t list = lists->bucket_count == 0 ? UINT32_MAX : *head_at(lists, bucket_of(lists, hash));
    while (list != UINT32_MAX) {
        const struct config_list *known = list_at(lists, list);
        if (known->hash == hash && is_equal(known->span, items, count)) {
            return list;
        }
        list = known->next;
    }
    return add_list(lists, items, count, hash);
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
    return lists->items.used_bytes + chunk_table_bytes(&lists->lists) + chunk_table_bytes(&lists->heads);
}
