/*
 * A prefix on its way: FINDING until all stages say the same end, then READY and LOADING in turns, one piece
 * after the other. Errors are a miss: whatever is wrong with a rank, the round that comes next finds out.
 */
#include "engine/prefix_tier.h"

#include <stdlib.h>
#include <string.h>

#include "engine/round_prefixes.h"

enum { PIECE_PAGES = 32 };

enum tier_phase { TIER_IDLE, TIER_FINDING, TIER_READY, TIER_LOADING };

struct prefix_tier {
    struct prefix_tier_options options;
    int32_t page_tokens;
    enum tier_phase phase;
    int32_t *tokens; /* [a context] of the prefix on its way */
    int32_t *pages;  /* [pages of a context] its pages, of which the first `held` have a reference of ours */
    int32_t known;   /* pages that the cache had */
    int32_t end;     /* pages that are wanted now */
    int32_t held;
    int32_t loaded; /* pages that all ranks have; while LOADING with the piece that is on its way */
    int64_t spare_pages;
    bool has_draft_rows;
    struct prefix_answer own; /* what this rank's part says to the last order */
};

static bool has_part(const struct prefix_tier *tier) {
    return tier->options.core->prefixes != NULL;
}

enum status prefix_tier_create(const struct prefix_tier_options *options, struct prefix_tier **out) {
    struct prefix_tier *tier = calloc(1, sizeof *tier);
    CHECK_MEMORY(tier);
    size_t page_limit = (size_t)options->core->states.pages_per_slot;
    tier->options = *options;
    tier->page_tokens = options->core->options.page_tokens;
    tier->pages = calloc(page_limit, sizeof *tier->pages);
    tier->tokens = calloc(page_limit * (size_t)tier->page_tokens, sizeof *tier->tokens);
    if (tier->pages == NULL || tier->tokens == NULL) {
        prefix_tier_destroy(&tier);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory for a prefix of %zu pages on its way from the disk",
             page_limit);
    }
    *out = tier;
    return STATUS_OK;
}

/* Gives the pages of the prefix on its way back to the pool or to the cache alone. */
static void let_go(struct prefix_tier *tier) {
    for (int32_t i = 0; i < tier->held; i++) {
        page_pool_drop_reference(tier->options.pages, tier->pages[i]);
    }
    tier->held = 0;
    tier->phase = TIER_IDLE;
}

void prefix_tier_destroy(struct prefix_tier **tier) {
    if (*tier != NULL) {
        let_go(*tier);
        free((*tier)->tokens);
        free((*tier)->pages);
        free(*tier);
        *tier = NULL;
    }
}

/* Has all ranks do something, this one included. */
static enum status order(struct prefix_tier *tier, const struct plan_record *record) {
    TRY(round_order_prefixes(tier->options.runner, record));
    return has_part(tier) ? executor_obey_prefixes(tier->options.core->executor, record, &tier->own)
                          : STATUS_OK;
}

/* How far this rank's files go; if not beyond what is known, nobody else is asked. */
static enum status find(struct prefix_tier *tier) {
    struct plan_record record = {.kind = PLAN_KIND_PREFIX_FIND,
                                 .prefix = {.tokens = tier->tokens,
                                            .token_count = tier->end * tier->page_tokens,
                                            .first_page = tier->known}};
    tier->phase = TIER_FINDING;
    if (has_part(tier)) {
        TRY(executor_obey_prefixes(tier->options.core->executor, &record, &tier->own));
        tier->end = tier->own.end_page;
        record.prefix.token_count = tier->end * tier->page_tokens;
    }
    if (tier->end <= tier->known) {
        let_go(tier);
        return STATUS_OK;
    }
    return round_order_prefixes(tier->options.runner, &record);
}

bool prefix_tier_ask(struct prefix_tier *tier, const int32_t *tokens, int32_t limit, int32_t known_tokens,
                     const int32_t *pages, int64_t spare_pages) {
    int32_t known = known_tokens / tier->page_tokens;
    int32_t count = limit / tier->page_tokens;
    if (tier->phase != TIER_IDLE || count <= known) {
        return false;
    }
    memcpy(tier->tokens, tokens, (size_t)count * (size_t)tier->page_tokens * sizeof *tokens);
    tier->known = known;
    tier->end = count;
    tier->spare_pages = spare_pages;
    for (tier->held = 0; tier->held < known; tier->held++) {
        tier->pages[tier->held] = pages[tier->held];
        page_pool_add_reference(tier->options.pages, pages[tier->held]);
    }
    if (find(tier) != STATUS_OK) {
        let_go(tier);
    }
    return tier->phase != TIER_IDLE;
}

bool prefix_tier_is_busy(const struct prefix_tier *tier) {
    return tier->phase != TIER_IDLE;
}

/* Takes pages for what is to be read; false if there are not enough. */
static bool take_pages(struct prefix_tier *tier) {
    struct page_pool *pool = tier->options.pages;
    int64_t available =
        pool->free_count + prefix_cache_counters(tier->options.cache).unused_pages - tier->spare_pages;
    if (tier->end - tier->known > available) {
        return false;
    }
    for (; tier->held < tier->end; tier->held++) {
        prefix_cache_evict(tier->options.cache, 1);
        int32_t page = page_pool_take(pool);
        if (page < 0) {
            return false;
        }
        tier->pages[tier->held] = page;
    }
    tier->loaded = tier->known;
    return true;
}

/* All stages have said how far they can get. */
static enum status settle_find(struct prefix_tier *tier, const struct prefix_answers *answers) {
    int32_t lowest = answers->lowest_end < tier->end ? answers->lowest_end : tier->end;
    int32_t own = has_part(tier) ? tier->own.end_page : lowest;
    bool is_same = own == lowest && (answers->lowest_end == INT32_MAX || answers->highest_end == lowest);
    tier->end = lowest;
    if (lowest <= tier->known || (is_same && !take_pages(tier))) {
        let_go(tier);
        return STATUS_OK;
    }
    tier->phase = TIER_READY;
    return is_same ? STATUS_OK : find(tier);
}

static enum status load_piece(struct prefix_tier *tier) {
    int32_t count = tier->end - tier->loaded;
    count = count < PIECE_PAGES ? count : PIECE_PAGES;
    struct plan_record record = {.kind = PLAN_KIND_PREFIX_LOAD,
                                 .prefix = {.first_page = tier->loaded,
                                            .pages = tier->pages + tier->loaded,
                                            .page_count = count,
                                            .has_snapshot = tier->loaded + count == tier->end}};
    tier->loaded += count;
    tier->phase = TIER_LOADING;
    return order(tier, &record);
}

/* The cache gets the prefix, and its snapshot a slot, unless it has got one meanwhile. */
static enum status publish(struct prefix_tier *tier, const struct step_plan *pending, bool *is_carried_out) {
    int32_t token_count = tier->end * tier->page_tokens;
    int32_t slot;
    TRY(prefix_cache_publish(tier->options.cache, tier->tokens, token_count, tier->pages,
                             tier->has_draft_rows, &slot));
    if (slot < 0) {
        return STATUS_OK;
    }
    struct plan_record record = {.kind = PLAN_KIND_PREFIX_RESTORE,
                                 .prefix = {.snapshot_slot = slot, .has_draft_rows = tier->has_draft_rows}};
    if (!*is_carried_out) {
        record.step = *pending;
    }
    enum status status = order(tier, &record);
    if (status != STATUS_OK) {
        prefix_cache_drop_snapshot(tier->options.cache, tier->tokens, token_count);
        return error_forward(status, ERROR_HERE);
    }
    *is_carried_out = true;
    return STATUS_OK;
}

/* All stages have read the piece, or one of them could not. */
static enum status settle_load(struct prefix_tier *tier, const struct prefix_answers *answers,
                               const struct step_plan *pending, bool *is_carried_out) {
    int32_t lowest = answers->lowest_end;
    if (has_part(tier) && tier->own.end_page < lowest) {
        lowest = tier->own.end_page;
    }
    if (lowest < tier->loaded) {
        let_go(tier);
        return STATUS_OK;
    }
    tier->phase = TIER_READY;
    if (tier->loaded < tier->end) {
        return STATUS_OK;
    }
    tier->has_draft_rows = answers->has_draft_rows && (!has_part(tier) || tier->own.has_draft_rows != 0);
    enum status status = publish(tier, pending, is_carried_out);
    let_go(tier);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

bool prefix_tier_go_on(struct prefix_tier *tier, const struct step_plan *pending, bool *is_carried_out) {
    struct prefix_answers answers;
    bool has_loaded = false;
    while (tier->phase != TIER_IDLE) {
        enum status status = STATUS_OK;
        if (tier->phase == TIER_READY) {
            if (has_loaded) {
                return true;
            }
            has_loaded = true;
            status = load_piece(tier);
        } else if (!round_has_prefix_answers(tier->options.runner, &answers)) {
            return true;
        } else if (tier->phase == TIER_FINDING) {
            status = settle_find(tier, &answers);
        } else {
            status = settle_load(tier, &answers, pending, is_carried_out);
        }
        if (status != STATUS_OK) {
            let_go(tier);
        }
    }
    return false;
}

void prefix_tier_keep(struct prefix_tier *tier, const int32_t *tokens, int32_t token_count,
                      const int32_t *pages, int32_t snapshot_slot, bool has_draft_rows,
                      const struct step_plan *pending, bool *is_carried_out) {
    struct plan_record record = {.kind = PLAN_KIND_PREFIX_KEEP,
                                 .prefix = {.tokens = tokens,
                                            .token_count = token_count,
                                            .pages = pages,
                                            .page_count = token_count / tier->page_tokens,
                                            .snapshot_slot = snapshot_slot,
                                            .has_draft_rows = has_draft_rows}};
    if (!*is_carried_out) {
        record.step = *pending;
    }
    /* Else the next round does what was to be done first, once more, and has the error. */
    *is_carried_out |= order(tier, &record) == STATUS_OK;
}
