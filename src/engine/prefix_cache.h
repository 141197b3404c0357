/*
 * Prefixes that sequences share: a tree of pages, by content, with snapshots of what is kept by slot.
 *
 * A node is one full page of tokens after its parent's. Its page is read by any number of sequences and
 * written by none. Some nodes have a snapshot: the ring rows as they were right after the node's last token,
 * in a slot that no sequence runs in. A sequence can start at a node with a snapshot only. Nodes are found by
 * a seeded XXH3 of parent and tokens; the tokens are compared before a hit counts.
 *
 * The cache holds one reference to each of its pages. Under pressure leaves go, never a page that a sequence
 * refers to: first those without a snapshot, where no sequence can start, then the least recently used. Use
 * ends when the last sequence lets go of a page; a publication that ends at a page is a use too. A snapshot
 * slot may be taken from the least recently used snapshot (last matched or published), its page stays.
 * Copies of snapshots are made by step plans, in the order in which the cache handed them out, so that no
 * pinning is needed. All memory is made at creation. One thread at a time.
 */
#ifndef SLUICE_ENGINE_PREFIX_CACHE_H
#define SLUICE_ENGINE_PREFIX_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/page_pool.h"

struct prefix_cache;

struct prefix_cache_options {
    struct page_pool *pages;     /* borrowed; the cache becomes its watcher */
    int32_t page_tokens;         /* tokens of a page */
    int32_t first_snapshot_slot; /* snapshots live in slots first_snapshot_slot.. */
    int32_t snapshot_count;
    uint64_t hash_seed; /* random per process: keys are no use to who would collide them */
};

/* Where a sequence can start. */
struct prefix_match {
    int32_t token_count;   /* a multiple of page_tokens; 0: no hit */
    int32_t snapshot_slot; /* -1 without a hit */
    bool has_draft_rows;   /* as was said when the snapshot was taken */
    /*
     * How far the pages are cached, snapshot or not; at least token_count. If it is more, sequences have
     * parted here before: a snapshot at this place would serve the next one.
     */
    int32_t cached_token_count;
};

struct prefix_cache_counters {
    int64_t cached_pages; /* nodes */
    int64_t unused_pages; /* of them, referred to by no sequence; what prefix_cache_evict can free at most */
    int64_t snapshots;
    int64_t lookups;
    int64_t hits;
    int64_t hit_tokens;
    int64_t evicted_pages;
    int64_t evicted_snapshots; /* overwritten by newer ones, or gone with their pages */
};

/* BAD_ARGUMENT for impossible sizes and for a pool that has a cache already. Memory: some 60 bytes and the
 * tokens for each page of the pool. */
enum status prefix_cache_create(const struct prefix_cache_options *options, struct prefix_cache **out);

/* Gives all pages back; frees and nulls; NULL inside is allowed. */
void prefix_cache_destroy(struct prefix_cache **cache);

/*
 * Finds the longest cached prefix of at most `limit` tokens that ends in a snapshot. Writes its pages to
 * `pages` [token_count / page_tokens] and adds a reference for the caller to each. Time in proportion to
 * `limit`.
 */
void prefix_cache_match(struct prefix_cache *cache, const int32_t *tokens, int32_t limit, int32_t *pages,
                        struct prefix_match *out);

/*
 * Publishes the full pages of a sequence that has committed `token_count` tokens (a multiple of page_tokens)
 * and asks for a snapshot at their end. `pages` are the sequence's own, each with its reference. A page whose
 * tokens are cached already is given up for the cached one, which takes its place in `pages` with the
 * reference: so whoever uses a node uses all nodes before it, and equal pages exist once. Of the others the
 * cache keeps `pages` and a reference. *snapshot_slot: where to copy the sequence's slot after the step; -1
 * if there is a snapshot already or no slot to be had. A snapshot without draft rows is replaced, in its own
 * slot, by one that has them. Time in proportion to the tokens that are new in the cache.
 *
 * INTERNAL, and nothing changed beyond the pages before it, for a page that is free or cached as part of
 * another prefix.
 */
enum status prefix_cache_publish(struct prefix_cache *cache, const int32_t *tokens, int32_t token_count,
                                 int32_t *pages, bool has_draft_rows, int32_t *snapshot_slot);

/* Drops unused leaves until `page_count` pages of the pool are free or none is left to drop. */
void prefix_cache_evict(struct prefix_cache *cache, int32_t page_count);

/* Drops the snapshot at the end of these tokens, if there is one; the pages stay. */
void prefix_cache_drop_snapshot(struct prefix_cache *cache, const int32_t *tokens, int32_t token_count);

/* Drops everything. Sequences keep their references. */
void prefix_cache_clear(struct prefix_cache *cache);

struct prefix_cache_counters prefix_cache_counters(const struct prefix_cache *cache);

#endif
