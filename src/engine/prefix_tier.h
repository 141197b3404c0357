/*
 * The prefix cache on disk, as the scheduler uses it: beginnings that memory does not know are brought in
 * when a request starts, and what the cache in memory gets is written behind.
 *
 * It moves state itself, outside of step plans; what the next plan would have changed first is carried out
 * before, so that both see the state in the same order. One thread at a time, the engine's.
 */
#ifndef SLUICE_ENGINE_PREFIX_TIER_H
#define SLUICE_ENGINE_PREFIX_TIER_H

#include "engine/engine_core.h"
#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "engine/prefix_disk.h"

struct prefix_tier;

struct prefix_tier_options {
    struct engine_core *core;   /* borrowed */
    struct page_pool *pages;    /* borrowed */
    struct prefix_cache *cache; /* borrowed */
    const char *directory;
    uint64_t limit_bytes;
};

/* Opens the directory (prefix_disk_open). */
enum status prefix_tier_create(const struct prefix_tier_options *options, struct prefix_tier **out);

/* Writes what is on its way, frees and nulls; NULL inside is allowed. */
void prefix_tier_destroy(struct prefix_tier **tier);

/*
 * Brings the longest prefix of at most `limit` tokens that the disk has and that is longer than
 * `known_tokens` into the cache; `pages` are those of the known ones, which the caller refers to, and have
 * room for all. Leaves `spare_pages` of the pool alone. Returns whether the cache knows more now. `pending`
 * has been carried out if *is_carried_out says so. An entry that cannot be read is none.
 */
bool prefix_tier_fetch(struct prefix_tier *tier, const int32_t *tokens, int32_t limit, int32_t known_tokens,
                       int32_t *pages, int64_t spare_pages, const struct step_plan *pending,
                       bool *is_carried_out);

/*
 * Writes a prefix that the cache has just got, with the snapshot in `snapshot_slot`, as far as the disk lacks
 * it and keeps up. Carries out `pending` first, if it writes anything.
 */
void prefix_tier_keep(struct prefix_tier *tier, const int32_t *tokens, int32_t token_count,
                      const int32_t *pages, int32_t snapshot_slot, bool has_draft_rows,
                      const struct step_plan *pending, bool *is_carried_out);

struct prefix_disk_counters prefix_tier_counters(struct prefix_tier *tier);

#endif
