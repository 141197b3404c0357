/*
 * The prefix cache on disk, as the scheduler uses it: beginnings that memory does not know are brought in
 * when a request starts, and what the cache in memory gets is written behind.
 *
 * It decides for all ranks of a replica. They are asked by orders (engine/prefix_order.h) that go between
 * rounds: first how far the files of all stages go, then to read some pages at a time into pages of the pool
 * that this tier holds, at last where the snapshot goes. The cache gets a prefix once every stage has read
 * and checked all of it; if an entry is missing or damaged anywhere the prefix is a miss everywhere, and its
 * pages are free again. Nobody waits for an answer while there are rounds to run: who wants the prefix waits,
 * the others go on, and no order reads more than PIECE_PAGES pages.
 *
 * What the next plan would have changed first is carried out in front of a change here, so that all ranks see
 * the state in the same order. One prefix at a time; one thread at a time, the engine's.
 */
#ifndef SLUICE_ENGINE_PREFIX_TIER_H
#define SLUICE_ENGINE_PREFIX_TIER_H

#include "engine/engine_core.h"
#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "engine/prefix_disk.h"
#include "engine/round.h"

struct prefix_tier;

struct prefix_tier_options {
    struct engine_core *core;    /* borrowed; the leader's */
    struct round_runner *runner; /* borrowed */
    struct page_pool *pages;     /* borrowed */
    struct prefix_cache *cache;  /* borrowed */
};

enum status prefix_tier_create(const struct prefix_tier_options *options, struct prefix_tier **out);

/* Frees and nulls; NULL inside is allowed. */
void prefix_tier_destroy(struct prefix_tier **tier);

/*
 * Starts to bring in the longest prefix of at most `limit` tokens that the disk has and that is longer than
 * `known_tokens`; `pages` are those of the known ones, to which it adds references. Will leave `spare_pages`
 * of the pool alone. False if there is none, or if another is under way.
 */
bool prefix_tier_ask(struct prefix_tier *tier, const int32_t *tokens, int32_t limit, int32_t known_tokens,
                     const int32_t *pages, int64_t spare_pages);

/*
 * Goes on with what was asked for by one step, if this costs no wait. Returns whether it is still under way:
 * at its end the cache knows the prefix or does not. `pending` has been carried out if *is_carried_out says
 * so.
 */
bool prefix_tier_go_on(struct prefix_tier *tier, const struct step_plan *pending, bool *is_carried_out);

/* Whether something is under way. */
bool prefix_tier_is_busy(const struct prefix_tier *tier);

/*
 * Writes a prefix that the cache has just got, with the snapshot in `snapshot_slot`, as far as the disks lack
 * it and keep up. Carries out `pending` first.
 */
void prefix_tier_keep(struct prefix_tier *tier, const int32_t *tokens, int32_t token_count,
                      const int32_t *pages, int32_t snapshot_slot, bool has_draft_rows,
                      const struct step_plan *pending, bool *is_carried_out);

#endif
