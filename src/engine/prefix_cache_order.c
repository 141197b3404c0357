/* Which page goes next: a binary heap of the pages that may go. */
#include "engine/prefix_cache_internal.h"

/* Whether page `a` goes before page `b`: what nobody can reach first, then by last use. */
static bool goes_before(const struct prefix_cache *cache, int32_t a, int32_t b) {
    const struct prefix_node *left = &cache->nodes[a];
    const struct prefix_node *right = &cache->nodes[b];
    bool is_left_reachable = left->snapshot != PREFIX_NONE;
    bool is_right_reachable = right->snapshot != PREFIX_NONE;
    if (is_left_reachable != is_right_reachable) {
        return is_right_reachable;
    }
    return left->last_use < right->last_use;
}

static void place(struct prefix_cache *cache, int32_t index, int32_t page) {
    cache->droppable[index] = page;
    cache->nodes[page].heap_index = index;
}

static void move_up(struct prefix_cache *cache, int32_t page) {
    int32_t index = cache->nodes[page].heap_index;
    while (index > 0) {
        int32_t above = (index - 1) / 2;
        if (!goes_before(cache, page, cache->droppable[above])) {
            break;
        }
        place(cache, index, cache->droppable[above]);
        index = above;
    }
    place(cache, index, page);
}

static void move_down(struct prefix_cache *cache, int32_t page) {
    int32_t index = cache->nodes[page].heap_index;
    while (2 * (int64_t)index + 1 < cache->droppable_count) {
        int32_t below = 2 * index + 1;
        if (below + 1 < cache->droppable_count &&
            goes_before(cache, cache->droppable[below + 1], cache->droppable[below])) {
            below++;
        }
        if (!goes_before(cache, cache->droppable[below], page)) {
            break;
        }
        place(cache, index, cache->droppable[below]);
        index = below;
    }
    place(cache, index, page);
}

void prefix_cache_leave_order(struct prefix_cache *cache, int32_t page) {
    int32_t index = cache->nodes[page].heap_index;
    if (index == PREFIX_NONE) {
        return;
    }
    cache->nodes[page].heap_index = PREFIX_NONE;
    int32_t last = cache->droppable[--cache->droppable_count];
    if (last != page) {
        place(cache, index, last);
        move_up(cache, last);
        move_down(cache, last);
    }
}

void prefix_cache_update_order(struct prefix_cache *cache, int32_t page) {
    const struct prefix_node *node = &cache->nodes[page];
    if (node->child_count > 0 || cache->options.pages->reference_counts[page] > 1) {
        prefix_cache_leave_order(cache, page);
        return;
    }
    if (node->heap_index == PREFIX_NONE) {
        place(cache, cache->droppable_count++, page);
    }
    move_up(cache, page);
    move_down(cache, page);
}

void prefix_cache_touch(struct prefix_cache *cache, int32_t page) {
    cache->nodes[page].last_use = ++cache->clock;
    prefix_cache_update_order(cache, page);
}
