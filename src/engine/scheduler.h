/*
 * Who runs in the next step, with how many tokens, in which memory.
 *
 * Running sequences that answer go first, one row each, then their drafts, then prompts in chunks, oldest
 * sequence first, up to row_limit rows; then waiting sequences are let in, by priority and order of arrival,
 * while slots and pages last. So a prompt of any length delays a running answer by one step at most. Pages
 * are taken when rows need them; when none can be had (unused cached ones are given up first), the youngest
 * of the lowest priority gives its pages back and waits again in front of its equals: it reads its tokens
 * anew later, with the same bits. The oldest of the highest priority never gives way, and a sequence that
 * needs more than all pages is refused at submission, so one always gets on.
 *
 * With several stages several ticks are under way (spec parallelism 2.5). Sequences that answer belong to
 * groups: a group's tokens are chosen in one tick at a time, and its next one is planned when what the last
 * one gave has been taken in (P-26). Parts of prompts wait for nothing (P-30): while nobody answers there may
 * be more ticks under way than groups, so that a stage has the next part before it is done with one. A
 * sequence's memory goes to another only when no tick with its rows is under way.
 *
 * The scheduler runs nothing and reads no clock. Plans are completed in the order they were made. No
 * allocation after creation. One thread at a time.
 */
#ifndef SLUICE_ENGINE_SCHEDULER_H
#define SLUICE_ENGINE_SCHEDULER_H

#include "engine/draft_controller.h"
#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "engine/round_plan.h"
#include "engine/sequence.h"

struct scheduler;

/*
 * Slot operations of a plan, at most, for each slot of a sequence: a copy and a saved row at its end; a
 * clearing and a restored copy when the next one starts.
 */
enum { SCHEDULER_OPERATIONS_PER_SLOT = 4 };

/*
 * Prefixes kept below the cache, on disk (engine/prefix_tier.h), which are brought into it while others run.
 * Functions that are given what the next plan will change in the state first may carry that out, and say so:
 * then the plan does not do it again. NULL functions: no store.
 */
struct scheduler_store {
    /*
     * Starts to bring a prefix of at most `limit` tokens that is longer than `known_tokens` into the cache;
     * `pages` are those of the known ones. Leaves `spare_pages` alone. False if there is none. Not while one
     * is under way.
     */
    bool (*ask)(void *context, const int32_t *tokens, int32_t limit, int32_t known_tokens,
                const int32_t *pages, int64_t spare_pages);
    /* Goes on with it as far as nobody has to wait for that; false if nothing is under way any more. */
    bool (*go_on)(void *context, const struct step_plan *pending, bool *is_carried_out);
    /* The cache has got these pages, and a snapshot at their end. */
    void (*keep)(void *context, const int32_t *tokens, int32_t token_count, const int32_t *pages,
                 int32_t snapshot_slot, bool has_draft_rows, const struct step_plan *pending,
                 bool *is_carried_out);
    void *context;
};

struct scheduler_options {
    struct page_pool *pages;       /* borrowed */
    struct prefix_cache *prefixes; /* borrowed; NULL: none */
    struct scheduler_store store;
    struct draft_controller *controller; /* borrowed; NULL: no drafts */
    int32_t slot_count;                  /* sequences that run at once */
    int32_t row_limit;                   /* rows of a step; at least slot_count */
    int32_t page_tokens;
    int32_t context_tokens;
    int32_t draft_limit;
    int32_t draft_window;      /* rows of the draft layer's rings: what a sequence must catch up on */
    int32_t group_count;       /* at least 1 */
    int32_t in_flight_limit;   /* ticks under way at once; at least group_count */
    int64_t vocabulary_size;   /* of masks */
    int32_t snapshot_interval; /* tokens between snapshots inside a prompt, a multiple of page_tokens */
    /* Called when a sequence has ended; it is in no list any more. */
    void (*finished)(void *context, struct sequence *sequence);
    void *finished_context;
};

struct scheduler_gauges {
    int32_t running;
    int32_t waiting;
    int64_t preemptions;
    int64_t finished;
    int64_t prompt_tokens;
    int64_t cached_prompt_tokens;
    int64_t output_tokens;
    int64_t store_queried_tokens; /* looked for in the store because the cache did not know them */
    int64_t store_found_tokens;
};

enum status scheduler_create(const struct scheduler_options *options, struct scheduler **out);

/* Frees and nulls; NULL inside is allowed. Sequences that have not ended are forgotten. */
void scheduler_destroy(struct scheduler **scheduler);

/* Takes a sequence in; borrowed until it is finished. */
void scheduler_submit(struct scheduler *scheduler, struct sequence *sequence);

/*
 * Plans the next round at time `now`: sequences that were cancelled or are too late end first. Returns false
 * if there is nothing to run, or not before a round under way is completed or the store has gone on: a
 * sequence whose beginning it brings in waits for that, and so do those behind it. The plan is valid until it
 * is completed, its page updates, slot operations, starts and masks until the next one is made.
 */
bool scheduler_plan(struct scheduler *scheduler, double now, struct round_plan *out);

/* Takes what the oldest planned round gave: accepted tokens, ended sequences, pages to share. */
void scheduler_complete(struct scheduler *scheduler, const struct round_result *result, double now);

/*
 * Ends every sequence with this error: a planned round could not be run. Those planned after it are forgotten
 * too, and so are cached prefixes.
 */
void scheduler_fail(struct scheduler *scheduler, enum status status, const char *message);

/* The first of the running sequences, or of the waiting ones; the others follow by `next`. NULL: none. */
struct sequence *scheduler_first(const struct scheduler *scheduler, bool is_waiting);

/* The earliest deadline of any sequence; 0: none. */
double scheduler_next_deadline(const struct scheduler *scheduler);

/* Rounds planned and not yet completed. */
int32_t scheduler_in_flight(const struct scheduler *scheduler);

struct scheduler_gauges scheduler_gauges(const struct scheduler *scheduler);

#endif
