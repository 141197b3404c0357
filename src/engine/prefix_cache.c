/* The tree of pages: finding, adding and dropping nodes. */
#include "engine/prefix_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/prefix_cache_internal.h"

/* A page has gained its second reference, or is down to one: the cache's own, if it is a node. */
static void sharing_changed(void *context, int32_t page, bool is_shared) {
    struct prefix_cache *cache = context;
    if (!cache->nodes[page].is_cached) {
        return;
    }
    cache->counters.unused_pages += is_shared ? -1 : 1;
    if (is_shared) {
        prefix_cache_leave_order(cache, page);
    } else {
        prefix_cache_touch(cache, page);
    }
}

static void forget_nodes(struct prefix_cache *cache) {
    for (uint64_t i = 0; i <= cache->bucket_mask; i++) {
        cache->buckets[i] = PREFIX_NONE;
    }
    cache->droppable_count = 0;
    cache->counters.cached_pages = 0;
    cache->counters.unused_pages = 0;
    prefix_cache_reset_snapshots(cache);
}

static size_t page_token_bytes(const struct prefix_cache *cache) {
    return (size_t)cache->options.page_tokens * sizeof *cache->tokens;
}

static enum status make_tables(struct prefix_cache *cache) {
    size_t page_count = (size_t)cache->options.pages->page_count;
    size_t bucket_count = 1;
    while (bucket_count < 2 * page_count) {
        bucket_count *= 2;
    }
    cache->bucket_mask = bucket_count - 1;
    /* One more than needed: an allocation of nothing may be NULL. */
    cache->nodes = calloc(page_count + 1, sizeof *cache->nodes);
    cache->tokens = calloc(page_count + 1, page_token_bytes(cache));
    cache->buckets = calloc(bucket_count, sizeof *cache->buckets);
    cache->droppable = calloc(page_count + 1, sizeof *cache->droppable);
    cache->snapshots = calloc((size_t)cache->options.snapshot_count + 1, sizeof *cache->snapshots);
    cache->hash_input = malloc(sizeof(struct hash128) + page_token_bytes(cache));
    bool has_all = cache->nodes != NULL && cache->tokens != NULL && cache->buckets != NULL &&
                   cache->droppable != NULL && cache->snapshots != NULL && cache->hash_input != NULL;
    CHECK(has_all, STATUS_OUT_OF_MEMORY, "out of memory for a prefix cache of %zu pages of %d tokens",
          page_count, cache->options.page_tokens);
    return STATUS_OK;
}

static void free_tables(struct prefix_cache *cache) {
    free(cache->nodes);
    free(cache->tokens);
    free(cache->buckets);
    free(cache->droppable);
    free(cache->snapshots);
    free(cache->hash_input);
    free(cache);
}

enum status prefix_cache_create(const struct prefix_cache_options *options, struct prefix_cache **out) {
    CHECK(options->page_tokens > 0 && options->snapshot_count >= 0, STATUS_BAD_ARGUMENT,
          "a prefix cache with pages of %d tokens and %d snapshots cannot be made", options->page_tokens,
          options->snapshot_count);
    CHECK(options->pages->watcher.sharing_changed == NULL, STATUS_BAD_ARGUMENT,
          "the page pool has a prefix cache already");
    struct prefix_cache *cache = calloc(1, sizeof *cache);
    CHECK_MEMORY(cache);
    cache->options = *options;
    cache->hash = hash_xxh3_128;
    enum status status = make_tables(cache);
    if (status != STATUS_OK) {
        free_tables(cache);
        return error_forward(status, ERROR_HERE);
    }
    forget_nodes(cache);
    options->pages->watcher = (struct page_watcher){sharing_changed, cache};
    *out = cache;
    return STATUS_OK;
}

void prefix_cache_destroy(struct prefix_cache **cache) {
    if (*cache != NULL) {
        prefix_cache_clear(*cache);
        (*cache)->options.pages->watcher = (struct page_watcher){0};
        free_tables(*cache);
        *cache = NULL;
    }
}

void prefix_cache_clear(struct prefix_cache *cache) {
    forget_nodes(cache);
    for (int32_t page = 0; page < cache->options.pages->page_count; page++) {
        if (cache->nodes[page].is_cached) {
            cache->nodes[page].is_cached = false;
            page_pool_drop_reference(cache->options.pages, page);
        }
    }
}

static int32_t *node_tokens(const struct prefix_cache *cache, int32_t page) {
    return cache->tokens + (size_t)page * (size_t)cache->options.page_tokens;
}

static struct hash128 key_of(const struct prefix_cache *cache, int32_t parent, const int32_t *tokens) {
    struct hash128 parent_key = {0, 0};
    if (parent != PREFIX_NONE) {
        parent_key = cache->nodes[parent].key;
    }
    memcpy(cache->hash_input, &parent_key, sizeof parent_key);
    memcpy(cache->hash_input + sizeof parent_key, tokens, page_token_bytes(cache));
    return cache->hash(cache->hash_input, sizeof parent_key + page_token_bytes(cache),
                       cache->options.hash_seed);
}

/* The node of these tokens after the parent's, whose key is `key`; PREFIX_NONE if there is none. */
static int32_t find_child(const struct prefix_cache *cache, int32_t parent, struct hash128 key,
                          const int32_t *tokens) {
    int32_t page = cache->buckets[key.low & cache->bucket_mask];
    while (page != PREFIX_NONE) {
        const struct prefix_node *node = &cache->nodes[page];
        if (node->parent == parent && hash128_is_equal(node->key, key) &&
            memcmp(node_tokens(cache, page), tokens, page_token_bytes(cache)) == 0) {
            break;
        }
        page = node->next_in_bucket;
    }
    return page;
}

static void add_child(struct prefix_cache *cache, int32_t parent, struct hash128 key, const int32_t *tokens,
                      int32_t page) {
    int32_t *bucket = &cache->buckets[key.low & cache->bucket_mask];
    /* The page is no node yet: that it becomes shared is nobody's news. */
    page_pool_add_reference(cache->options.pages, page);
    cache->nodes[page] = (struct prefix_node){.key = key,
                                              .parent = parent,
                                              .next_in_bucket = *bucket,
                                              .snapshot = PREFIX_NONE,
                                              .heap_index = PREFIX_NONE,
                                              .is_cached = true};
    *bucket = page;
    memcpy(node_tokens(cache, page), tokens, page_token_bytes(cache));
    cache->counters.cached_pages++;
    if (parent != PREFIX_NONE) {
        cache->nodes[parent].child_count++;
        prefix_cache_leave_order(cache, parent);
    }
}

static void leave_bucket(struct prefix_cache *cache, int32_t page) {
    int32_t *link = &cache->buckets[cache->nodes[page].key.low & cache->bucket_mask];
    while (*link != page) {
        link = &cache->nodes[*link].next_in_bucket;
    }
    *link = cache->nodes[page].next_in_bucket;
}

/* Drops an unused leaf. */
static void drop_node(struct prefix_cache *cache, int32_t page) {
    struct prefix_node *node = &cache->nodes[page];
    prefix_cache_leave_order(cache, page);
    leave_bucket(cache, page);
    cache->counters.evicted_snapshots += node->snapshot != PREFIX_NONE;
    prefix_cache_free_snapshot(cache, page);
    if (node->parent != PREFIX_NONE) {
        cache->nodes[node->parent].child_count--;
        prefix_cache_update_order(cache, node->parent);
    }
    node->is_cached = false;
    cache->counters.cached_pages--;
    cache->counters.unused_pages--;
    cache->counters.evicted_pages++;
    page_pool_drop_reference(cache->options.pages, page);
}

void prefix_cache_evict(struct prefix_cache *cache, int32_t page_count) {
    while (cache->options.pages->free_count < page_count && cache->droppable_count > 0) {
        drop_node(cache, cache->droppable[0]);
    }
}

void prefix_cache_match(struct prefix_cache *cache, const int32_t *tokens, int32_t limit, int32_t *pages,
                        struct prefix_match *out) {
    int32_t page_tokens = cache->options.page_tokens;
    *out = (struct prefix_match){.snapshot_slot = -1};
    cache->counters.lookups++;
    int32_t end = PREFIX_NONE;
    int32_t page = PREFIX_NONE;
    for (int32_t i = 0; i < limit / page_tokens; i++) {
        const int32_t *page_start = tokens + (size_t)i * (size_t)page_tokens;
        page = find_child(cache, page, key_of(cache, page, page_start), page_start);
        if (page == PREFIX_NONE) {
            break;
        }
        out->cached_token_count = (i + 1) * page_tokens;
        if (cache->nodes[page].snapshot != PREFIX_NONE) {
            out->token_count = out->cached_token_count;
            end = page;
        }
    }
    if (end == PREFIX_NONE) {
        return;
    }
    int32_t snapshot = cache->nodes[end].snapshot;
    out->snapshot_slot = cache->options.first_snapshot_slot + snapshot;
    out->has_draft_rows = cache->snapshots[snapshot].has_draft_rows;
    prefix_cache_touch_snapshot(cache, snapshot);
    cache->counters.hits++;
    cache->counters.hit_tokens += out->token_count;
    int32_t page_count = out->token_count / page_tokens;
    for (int32_t i = page_count; i-- > 0; end = cache->nodes[end].parent) {
        pages[i] = end;
    }
    for (int32_t i = 0; i < page_count; i++) {
        page_pool_add_reference(cache->options.pages, pages[i]);
    }
}

/*
 * How many of the sequence's first pages need no look: the last of them is a node, so it is this sequence's
 * own prefix that leads there. Otherwise a sequence that publishes page after page would hash its whole
 * beginning each time.
 */
static int32_t count_known_pages(const struct prefix_cache *cache, const int32_t *tokens,
                                 const int32_t *pages, int32_t page_count) {
    while (page_count > 0) {
        int32_t page = pages[page_count - 1];
        if (page >= 0 && page < cache->options.pages->page_count && cache->nodes[page].is_cached &&
            memcmp(node_tokens(cache, page),
                   tokens + (size_t)(page_count - 1) * (size_t)cache->options.page_tokens,
                   page_token_bytes(cache)) == 0) {
            break;
        }
        page_count--;
    }
    return page_count;
}

/* The slot that the node's snapshot is to be copied to, or -1. */
static int32_t publish_snapshot(struct prefix_cache *cache, int32_t page, bool has_draft_rows) {
    int32_t snapshot = cache->nodes[page].snapshot;
    if (snapshot == PREFIX_NONE) {
        snapshot = prefix_cache_take_snapshot(cache, page);
        if (snapshot == PREFIX_NONE) {
            return -1;
        }
    } else {
        prefix_cache_touch_snapshot(cache, snapshot);
        if (!has_draft_rows || cache->snapshots[snapshot].has_draft_rows) {
            return -1;
        }
    }
    cache->snapshots[snapshot].has_draft_rows = has_draft_rows;
    return cache->options.first_snapshot_slot + snapshot;
}

enum status prefix_cache_publish(struct prefix_cache *cache, const int32_t *tokens, int32_t token_count,
                                 int32_t *pages, bool has_draft_rows, int32_t *snapshot_slot) {
    struct page_pool *pool = cache->options.pages;
    int32_t page_tokens = cache->options.page_tokens;
    int32_t page_count = token_count / page_tokens;
    assert(token_count >= 0 && token_count % page_tokens == 0);
    *snapshot_slot = -1;
    int32_t known = count_known_pages(cache, tokens, pages, page_count);
    int32_t end = known > 0 ? pages[known - 1] : PREFIX_NONE;
    for (int32_t i = known; i < page_count; i++) {
        const int32_t *page_start = tokens + (size_t)i * (size_t)page_tokens;
        struct hash128 key = key_of(cache, end, page_start);
        int32_t child = find_child(cache, end, key, page_start);
        if (child == PREFIX_NONE) {
            child = pages[i];
            CHECK(child >= 0 && child < pool->page_count && pool->reference_counts[child] > 0 &&
                      !cache->nodes[child].is_cached,
                  STATUS_INTERNAL, "page %d of a sequence, number %d, is not its own to share", i, child);
            add_child(cache, end, key, page_start, child);
        } else if (child != pages[i]) {
            page_pool_add_reference(pool, child);
            page_pool_drop_reference(pool, pages[i]);
            pages[i] = child;
        }
        end = child;
    }
    if (end != PREFIX_NONE) {
        *snapshot_slot = publish_snapshot(cache, end, has_draft_rows);
        prefix_cache_touch(cache, end);
    }
    return STATUS_OK;
}

void prefix_cache_drop_snapshot(struct prefix_cache *cache, const int32_t *tokens, int32_t token_count) {
    int32_t page_tokens = cache->options.page_tokens;
    int32_t page = PREFIX_NONE;
    for (int32_t i = 0; i < token_count / page_tokens; i++) {
        const int32_t *page_start = tokens + (size_t)i * (size_t)page_tokens;
        page = find_child(cache, page, key_of(cache, page, page_start), page_start);
        if (page == PREFIX_NONE) {
            return;
        }
    }
    if (page != PREFIX_NONE) {
        prefix_cache_free_snapshot(cache, page);
        prefix_cache_update_order(cache, page);
    }
}

struct prefix_cache_counters prefix_cache_counters(const struct prefix_cache *cache) {
    return cache->counters;
}
