/*
 * Prefixes that sequences share: a tree of pages, by content, with snapshots of what is kept by slot.
 *
 * A node is one full page of tokens after its parent's. Its page is read by any number of sequences and
 * written by none. Some nodes have a snapshot: the ring rows as they were right after the node's last token,
 * in a slot that no sequence runs in. A sequence can start at a node with a snapshot only. Nodes are found by
 * a seeded XXH3 of parent and tokens; the tokens are compared before a hit counts.
 *
 * The cache holds one reference to each of its pages. Under pressure the least recently used leaf goes first,
 * never a page that a sequence refers to. A snapshot slot may be taken from the least recently used snapshot.
 * Copies of snapshots are made by step plans, in the order in which the cache handed them out, so that no
 * pinning is needed. One thread at a time.
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
    struct page_pool *pages;     /* borrowed */
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
    int32_t known_tokens;  /* tokens whose pages are cached, with or without a snapshot at their end */
};

struct prefix_cache_counters {
    int64_t cached_pages; /* nodes */
    int64_t unused_pages; /* of them, referred to by no sequence */
    int64_t snapshots;
    int64_t lookups;
    int64_t hits;
    int64_t hit_tokens;
    int64_t evicted_pages;
    int64_t evicted_snapshots;
};

enum status prefix_cache_create(const struct prefix_cache_options *options, struct prefix_cache **out);

/* Gives all pages back; frees and nulls; NULL inside is allowed. */
void prefix_cache_destroy(struct prefix_cache **cache);

/*
 * Finds the longest cached prefix of at most `limit` tokens that ends in a snapshot. Writes its pages to
 * `pages` [token_count / page_tokens] and adds a reference for the caller to each.
 */
void prefix_cache_match(struct prefix_cache *cache, const int32_t *tokens, int32_t limit, int32_t *pages,
                        struct prefix_match *out);

/*
 * Publishes the full pages of a sequence that has committed `token_count` tokens (a multiple of page_tokens)
 * and asks for a snapshot at their end. Pages that are cached already stay as they are; of the others the
 * cache keeps `pages` and a reference. *snapshot_slot: where to copy the sequence's slot after the step; -1
 * if there is a snapshot already or no slot to be had. OUT_OF_MEMORY publishes nothing beyond what is there.
 */
enum status prefix_cache_publish(struct prefix_cache *cache, const int32_t *tokens, int32_t token_count,
                                 const int32_t *pages, bool has_draft_rows, int32_t *snapshot_slot);

/* Drops least recently used leaves until `page_count` pages of the pool are free or none is left to drop. */
void prefix_cache_evict(struct prefix_cache *cache, int32_t page_count);

/* Drops the snapshot at the end of these tokens, if there is one; the pages stay. */
void prefix_cache_drop_snapshot(struct prefix_cache *cache, const int32_t *tokens, int32_t token_count);

/* Drops everything. */
void prefix_cache_clear(struct prefix_cache *cache);

struct prefix_cache_counters prefix_cache_counters(const struct prefix_cache *cache);

#endif
