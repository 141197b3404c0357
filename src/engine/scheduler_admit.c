/* Letting waiting sequences in: a slot, pages, and what the prefix cache knows of their beginning. */
#include "engine/scheduler_internal.h"

static int32_t free_slot(const struct scheduler *scheduler) {
    for (int32_t slot = 0; slot < scheduler->options.slot_count; slot++) {
        if (scheduler->slots[slot] == NULL) {
            return slot;
        }
    }
    return -1;
}

static int32_t matched_page_count(const struct scheduler *scheduler, const struct prefix_match *match) {
    return match->token_count / scheduler->options.page_tokens;
}

static void drop_match(struct scheduler *scheduler, const struct prefix_match *match) {
    for (int32_t i = 0; i < matched_page_count(scheduler, match); i++) {
        page_pool_drop_reference(scheduler->options.pages, scheduler->matched_pages[i]);
    }
}

void scheduler_go_on_with_store(struct scheduler *scheduler) {
    const struct scheduler_store *store = &scheduler->options.store;
    bool is_carried_out = false;
    if (store->go_on == NULL) {
        return;
    }
    struct step_plan pending = scheduler_pending_changes(scheduler);
    scheduler->is_store_busy = store->go_on(store->context, &pending, &is_carried_out);
    if (is_carried_out) {
        scheduler_forget_changes(scheduler);
    }
}

/* Asks the store below the cache for more than the cache has, once; whether the cache may have it now. */
static bool ask_store(struct scheduler *scheduler, struct sequence *sequence, int32_t known_tokens) {
    const struct scheduler_store *store = &scheduler->options.store;
    int32_t limit = sequence->token_count - 1;
    if (store->ask == NULL || sequence->has_asked || known_tokens + scheduler->options.page_tokens > limit) {
        return false;
    }
    if (!sequence->is_sought) {
        sequence->is_sought = true;
        scheduler->gauges.store_queried_tokens += limit - known_tokens;
    }
    sequence->has_asked = true;
    sequence->known_when_asked = known_tokens;
    if (!store->ask(store->context, sequence->tokens, limit, known_tokens, scheduler->matched_pages,
                    scheduler->running.count)) {
        return false;
    }
    scheduler_go_on_with_store(scheduler);
    return true;
}

/* Looks the beginning up; its pages are referred to from here on. The store may be busy with it afterwards.
 */
static struct prefix_match find_prefix(struct scheduler *scheduler, struct sequence *sequence) {
    struct prefix_match match = {.snapshot_slot = -1};
    struct prefix_cache *prefixes = scheduler->options.prefixes;
    int32_t limit = sequence->token_count - 1;
    if (prefixes == NULL || !sequence->uses_prefix_cache || sequence_is_scoring(sequence)) {
        return match;
    }
    prefix_cache_match(prefixes, sequence->tokens, limit, scheduler->matched_pages, &match);
    if (ask_store(scheduler, sequence, match.token_count)) {
        drop_match(scheduler, &match);
        prefix_cache_match(prefixes, sequence->tokens, limit, scheduler->matched_pages, &match);
    }
    return match;
}

/* Running sequences that will want another page. */
static int32_t growing_count(const struct scheduler *scheduler) {
    int32_t count = 0;
    for (const struct sequence *s = scheduler->running.first; s != NULL; s = s->next) {
        count += s->page_count < s->page_limit;
    }
    return count;
}

/*
 * Whether there are pages for all known tokens and the next one, and one more for each running sequence that
 * has not all of its own: so newcomers do not push out at once what already runs. Alone, a sequence always
 * fits (sequence_init).
 */
static bool has_pages(const struct scheduler *scheduler, const struct sequence *sequence,
                      const struct prefix_match *match) {
    int32_t page_tokens = scheduler->options.page_tokens;
    int64_t available = scheduler->options.pages->free_count;
    int64_t needed = sequence->token_count / page_tokens + 1;
    needed = needed < sequence->page_limit ? needed : sequence->page_limit;
    if (scheduler->options.prefixes != NULL) {
        available += prefix_cache_counters(scheduler->options.prefixes).unused_pages;
    }
    return scheduler->running.count == 0 ||
           needed - matched_page_count(scheduler, match) + growing_count(scheduler) <= available;
}

/* The sequence starts behind what matched, in a slot of its own. */
static void take_match(struct scheduler *scheduler, struct sequence *sequence,
                       const struct prefix_match *match) {
    for (int32_t i = 0; i < matched_page_count(scheduler, match); i++) {
        scheduler_add_page_update(scheduler, sequence->slot, i, scheduler->matched_pages[i]);
        sequence->pages[i] = scheduler->matched_pages[i];
    }
    sequence->page_count = matched_page_count(scheduler, match);
    sequence->computed = match->token_count;
    sequence->planned = match->token_count;
    if (match->token_count > 0) {
        scheduler_add_slot_operation(scheduler, STEP_SLOT_COPY, match->snapshot_slot, sequence->slot);
    }
    bool has_draft_rows = match->has_draft_rows && scheduler->options.draft_limit > 0;
    sequence->has_draft_rings = has_draft_rows;
    sequence->restored_from = has_draft_rows ? match->snapshot_slot : -1;
    sequence->draft_gap_end = has_draft_rows ? 0 : match->token_count;
    sequence->branch_point = match->cached_token_count > match->token_count ? match->cached_token_count : 0;
    if (sequence->preemptions == 0) {
        sequence->cached_prompt_tokens = match->token_count;
        scheduler->gauges.cached_prompt_tokens += match->token_count;
    }
}

/* What the store had of a sequence that starts. */
static void count_found(struct scheduler *scheduler, struct sequence *sequence, int32_t matched_tokens) {
    if (sequence->has_asked && matched_tokens > sequence->known_when_asked) {
        scheduler->gauges.store_found_tokens += matched_tokens - sequence->known_when_asked;
    }
    sequence->has_asked = false;
}

/* Who chooses tokens is told of a sequence when it gets its slot. */
static void announce(struct scheduler *scheduler, struct sequence *sequence) {
    sequence->generation = ++scheduler->generations[sequence->slot];
    scheduler->starts[scheduler->start_count++] =
        (struct round_start){.slot = sequence->slot,
                             .generation = sequence->generation,
                             .rules = &sequence->rules,
                             .tokens = sequence->tokens,
                             .prompt_count = sequence->prompt_count - sequence->output_prefix_count,
                             .token_count = sequence->token_count};
}

static bool start(struct scheduler *scheduler, struct sequence *sequence, int32_t slot) {
    struct prefix_match match = find_prefix(scheduler, sequence);
    if (scheduler->is_store_busy || !has_pages(scheduler, sequence, &match)) {
        drop_match(scheduler, &match);
        return false;
    }
    sequence_list_remove(&scheduler->waiting, sequence);
    sequence->phase = SEQUENCE_RUNNING;
    sequence->slot = slot;
    sequence->group = scheduler->plan->group;
    scheduler->slots[slot] = sequence;
    scheduler_list(&scheduler->running, sequence);
    take_match(scheduler, sequence, &match);
    count_found(scheduler, sequence, match.token_count);
    if (scheduler->options.controller != NULL) {
        draft_controller_start_sequence(scheduler->options.controller, slot,
                                        sequence->rules.sampling.temperature);
    }
    announce(scheduler, sequence);
    return true;
}

void scheduler_admit(struct scheduler *scheduler) {
    int32_t slot = free_slot(scheduler);
    while (scheduler->waiting.first != NULL && slot >= 0 && !scheduler->is_store_busy &&
           scheduler->plan->row_count < scheduler->options.row_limit &&
           scheduler_group_has_room(scheduler, scheduler->plan->group)) {
        struct sequence *sequence = scheduler->waiting.first;
        if (!start(scheduler, sequence, slot)) {
            return;
        }
        /* Who starts behind a snapshot must run in this step: the snapshot's slot may be another's in the
         * next. */
        if (!scheduler_plan_prompt(scheduler, sequence)) {
            scheduler->start_count--;
            scheduler_preempt(scheduler, sequence);
            return;
        }
        slot = free_slot(scheduler);
    }
}
