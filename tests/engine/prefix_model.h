/*
 * A second, naive prefix cache for tests: a list of whole prefixes, searched from end to end.
 *
 * It predicts what the real one does, but for the choice among free snapshot slots. It knows which pages and
 * slots hold what, as if the rows themselves were there.
 */
#ifndef SLUICE_TESTS_ENGINE_PREFIX_MODEL_H
#define SLUICE_TESTS_ENGINE_PREFIX_MODEL_H

#include "engine/prefix_cache.h"

enum {
    MODEL_PAGE_TOKENS = 2,
    MODEL_PAGES = 14,
    MODEL_SNAPSHOTS = 3,
    MODEL_FIRST_SLOT = 5,
    MODEL_SEQUENCES = 4,
    MODEL_SEQUENCE_PAGES = 6,
    MODEL_TOKENS = MODEL_SEQUENCE_PAGES * MODEL_PAGE_TOKENS,
};

/* What a page or a snapshot was computed from: all tokens up to its end. */
struct model_prefix {
    int32_t tokens[MODEL_TOKENS];
    int32_t token_count;
};

struct model_entry {
    struct model_prefix prefix;
    int32_t page;
    int64_t last_use;
    int32_t slot; /* -1: no snapshot */
    int64_t snapshot_use;
    bool has_draft_rows;
};

struct model_sequence {
    bool is_running;
    struct model_prefix prefix; /* its tokens; all have run through the model */
    int32_t pages[MODEL_SEQUENCE_PAGES];
};

struct model {
    struct model_entry entries[MODEL_PAGES];
    int32_t entry_count;
    struct model_sequence sequences[MODEL_SEQUENCES];
    struct model_prefix page_contents[MODEL_PAGES];
    struct model_prefix slot_contents[MODEL_SNAPSHOTS];
    int64_t clock;
    int64_t hits;
    int64_t hit_tokens;
    int64_t evicted_pages;
    int64_t evicted_snapshots;
};

/* References that sequences hold to a page. */
int32_t model_sequence_references(const struct model *model, int32_t page);

/* The entry of exactly these tokens, or NULL. */
struct model_entry *model_find(struct model *model, const int32_t *tokens, int32_t token_count);

/* The entry of a page, or NULL. */
struct model_entry *model_find_page(struct model *model, int32_t page);

/* What prefix_cache_match is to answer; counts the hit and marks it as used. */
struct prefix_match model_match(struct model *model, const int32_t *tokens, int32_t limit, int32_t *pages);

/*
 * What prefix_cache_publish is to do. `slot` is what the real one answered: it is taken over where any free
 * one would do. Returns the slot that it should have been.
 */
int32_t model_publish(struct model *model, const struct model_sequence *sequence, int32_t token_count,
                      bool has_draft_rows, int32_t slot);

/* Drops entries until `page_count` pages are free. Returns how many are free then. */
int32_t model_evict(struct model *model, int32_t page_count);

void model_drop_snapshot(struct model *model, const int32_t *tokens, int32_t token_count);
void model_clear(struct model *model);

/* A sequence has dropped its reference to this page. */
void model_release(struct model *model, int32_t page);

/* Pages that neither a sequence nor an entry refers to. */
int32_t model_free_pages(struct model *model);

#endif
