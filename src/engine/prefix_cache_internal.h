/*
 * What the prefix cache is made of, for its own files and for tests that check it from inside.
 *
 * A page is in the cache once at most, so a node has the number of its page. Nodes hang in buckets by key.
 * Nodes that may be dropped, unused leaves, are in a heap with the next to go on top; snapshots are in a list
 * by last use.
 */
#ifndef SLUICE_ENGINE_PREFIX_CACHE_INTERNAL_H
#define SLUICE_ENGINE_PREFIX_CACHE_INTERNAL_H

#include "engine/prefix_cache.h"
#include "lib/hash.h"

enum { PREFIX_NONE = -1 };

struct prefix_node {
    struct hash128 key; /* of the parent's key and the page's tokens */
    uint64_t last_use;  /* on the cache's clock; 0: its first sequence has it still */
    int32_t parent;     /* PREFIX_NONE: the page is the first of its prefix */
    int32_t child_count;
    int32_t next_in_bucket;
    int32_t snapshot;   /* index, or PREFIX_NONE */
    int32_t heap_index; /* in `droppable`, or PREFIX_NONE */
    bool is_cached;     /* the other members mean nothing otherwise */
};

struct prefix_snapshot {
    int32_t page;  /* PREFIX_NONE: free */
    int32_t older; /* in the order of use */
    int32_t newer; /* the same; of a free snapshot, the next free one */
    bool has_draft_rows;
};

struct prefix_cache {
    struct prefix_cache_options options;
    struct prefix_node *nodes; /* [page_count] */
    int32_t *tokens;           /* [page_count][page_tokens] */
    int32_t *buckets;          /* [bucket_mask + 1] first node, or PREFIX_NONE */
    uint64_t bucket_mask;
    int32_t *droppable; /* [droppable_count] heap of pages */
    int32_t droppable_count;
    struct prefix_snapshot *snapshots; /* [snapshot_count] */
    int32_t oldest_snapshot;
    int32_t newest_snapshot;
    int32_t free_snapshot;
    uint64_t clock;
    unsigned char *hash_input; /* the parent's key and a page's tokens */
    struct hash128 (*hash)(const void *bytes, size_t length, uint64_t seed); /* tests put a poor one here */
    struct prefix_cache_counters counters;
};

/* Marks the node as the most recently used one. */
void prefix_cache_touch(struct prefix_cache *cache, int32_t page);

/* Puts the node into the heap, takes it out or moves it, whatever fits its state now. */
void prefix_cache_update_order(struct prefix_cache *cache, int32_t page);

/* Takes the node out of the heap if it is in there. */
void prefix_cache_leave_order(struct prefix_cache *cache, int32_t page);

/* All snapshots free; the first slot is handed out first. */
void prefix_cache_reset_snapshots(struct prefix_cache *cache);

/* Gives the node a snapshot, at another's cost if none is free; its index, or PREFIX_NONE if there are none.
 */
int32_t prefix_cache_take_snapshot(struct prefix_cache *cache, int32_t page);

/* Frees the node's snapshot if it has one. */
void prefix_cache_free_snapshot(struct prefix_cache *cache, int32_t page);

/* Marks the snapshot as the most recently used one. */
void prefix_cache_touch_snapshot(struct prefix_cache *cache, int32_t snapshot);

#endif
