/*
 * Payloads: a page as state_pool_read_page packs it; a snapshot as state_pool_read_slot does, then the saved
 * row of the draft layer if there is one.
 */
#include "engine/prefix_tier.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/model_digest.h"

enum { BUFFERS = 64 };

static const uint64_t DEFAULT_LIMIT_BYTES = 16000000000u;

struct prefix_tier {
    struct prefix_tier_options options;
    struct prefix_disk *disk;
    int32_t page_tokens;
    int32_t page_limit; /* of a sequence */
    size_t saved_row_bytes;
    struct prefix_key *keys; /* [page_limit] of the prefix that was looked at last */
    int32_t *tokens;         /* its tokens */
    int32_t key_count;
    unsigned char *payload; /* of the larger kind */
};

/* Everything besides the weights that decides the bytes of state. */
static enum status make_model_key(const struct prefix_tier *tier, uint8_t key[HASH_SHA256_BYTES]) {
    const struct engine_core *core = tier->options.core;
    struct string_buffer text = {0};
    string_buffer_append(&text, (const char *)core->digest, sizeof core->digest);
    string_buffer_append_format(&text, "numerics %d page %d drafts %d ", (int)core->options.numerics,
                                core->options.page_tokens, core->options.draft.limit);
    executor_describe_arithmetic(core->executor, &text);
    enum status status = string_buffer_check(&text);
    if (status == STATUS_OK) {
        status = hash_sha256(text.data, text.length, key);
    }
    string_buffer_deinit(&text);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status open_disk(struct prefix_tier *tier) {
    const struct state_pool *states = &tier->options.core->states;
    struct prefix_disk_options options = {
        .directory = tier->options.directory,
        .page_tokens = tier->page_tokens,
        .page_bytes = states->page_bytes,
        .snapshot_bytes = states->snapshot_bytes + tier->saved_row_bytes,
        .limit_bytes = tier->options.limit_bytes == 0 ? DEFAULT_LIMIT_BYTES : tier->options.limit_bytes,
        .buffer_count = BUFFERS,
    };
    TRY(make_model_key(tier, options.model_key));
    return prefix_disk_open(&options, &tier->disk);
}

enum status prefix_tier_create(const struct prefix_tier_options *options, struct prefix_tier **out) {
    enum status status = STATUS_OK;
    struct prefix_tier *tier = calloc(1, sizeof *tier);
    CHECK_MEMORY(tier);
    const struct state_pool *states = &options->core->states;
    tier->options = *options;
    tier->page_tokens = options->core->options.page_tokens;
    tier->page_limit = (int32_t)states->pages_per_slot;
    tier->saved_row_bytes = executor_saved_row_bytes(options->core->executor);
    size_t snapshot_bytes = states->snapshot_bytes + tier->saved_row_bytes;
    tier->keys = calloc((size_t)tier->page_limit, sizeof *tier->keys);
    tier->tokens = calloc((size_t)tier->page_limit * (size_t)tier->page_tokens, sizeof *tier->tokens);
    tier->payload = malloc(snapshot_bytes > states->page_bytes ? snapshot_bytes : states->page_bytes);
    CHECK_MEMORY_GOTO(tier->keys);
    CHECK_MEMORY_GOTO(tier->tokens);
    CHECK_MEMORY_GOTO(tier->payload);
    TRY_GOTO(open_disk(tier));
    *out = tier;
    return STATUS_OK;
fail:
    prefix_tier_destroy(&tier);
    return status;
}

void prefix_tier_destroy(struct prefix_tier **tier) {
    if (*tier != NULL) {
        prefix_disk_close(&(*tier)->disk);
        free((*tier)->keys);
        free((*tier)->tokens);
        free((*tier)->payload);
        free(*tier);
        *tier = NULL;
    }
}

static const int32_t *page_start(const struct prefix_tier *tier, const int32_t *tokens, int32_t page) {
    return tokens + (int64_t)page * tier->page_tokens;
}

/* Keys of the first `count` pages. Those that the last prefix has in common with this one are known. */
static bool make_keys(struct prefix_tier *tier, const int32_t *tokens, int32_t count) {
    size_t page_bytes = (size_t)tier->page_tokens * sizeof *tokens;
    int32_t known = 0;
    while (known < count && known < tier->key_count &&
           memcmp(page_start(tier, tier->tokens, known), page_start(tier, tokens, known), page_bytes) == 0) {
        known++;
    }
    tier->key_count = known;
    for (int32_t i = known; i < count; i++) {
        const struct prefix_key *parent = i == 0 ? NULL : &tier->keys[i - 1];
        if (prefix_disk_key(tier->disk, parent, page_start(tier, tokens, i), &tier->keys[i]) != STATUS_OK) {
            return false;
        }
        tier->key_count++;
    }
    memcpy(tier->tokens, tokens, (size_t)count * page_bytes);
    return true;
}

static bool has_page(const struct prefix_tier *tier, int32_t page) {
    return prefix_disk_has(tier->disk, &tier->keys[page], PREFIX_ENTRY_PAGE);
}

/* Pages up to the last snapshot that the disk has without a gap; `known` if there is none further. */
static int32_t find_end(const struct prefix_tier *tier, int32_t known, int32_t count) {
    int32_t end = known;
    for (int32_t i = known; i < count && has_page(tier, i); i++) {
        if (prefix_disk_has(tier->disk, &tier->keys[i], PREFIX_ENTRY_SNAPSHOT)) {
            end = i + 1;
        }
    }
    return end;
}

/* Carries out what the next plan would have done first, once. */
static bool carry_out(struct prefix_tier *tier, const struct step_plan *pending, bool *is_carried_out) {
    if (!*is_carried_out && executor_change_state(tier->options.core->executor, pending) != STATUS_OK) {
        return false;
    }
    *is_carried_out = true;
    return true;
}

static bool synchronize(const struct prefix_tier *tier) {
    return stream_synchronize(tier->options.core->stream) == STATUS_OK;
}

/* A page of the disk in a page of the pool, with a reference; -1 if either is not to be had. */
static int32_t load_page(struct prefix_tier *tier, const int32_t *tokens, int32_t index) {
    struct engine_core *core = tier->options.core;
    bool unused;
    if (!prefix_disk_read(tier->disk, &tier->keys[index], PREFIX_ENTRY_PAGE, page_start(tier, tokens, index),
                          tier->payload, &unused)) {
        return -1;
    }
    prefix_cache_evict(tier->options.cache, 1);
    int32_t page = page_pool_take(tier->options.pages);
    if (page >= 0 && (state_pool_write_page(&core->states, core->stream, page, tier->payload) != STATUS_OK ||
                      !synchronize(tier))) {
        page_pool_drop_reference(tier->options.pages, page);
        page = -1;
    }
    return page;
}

static int32_t load_pages(struct prefix_tier *tier, const int32_t *tokens, int32_t first, int32_t end,
                          int32_t *pages) {
    int32_t loaded = first;
    while (loaded < end && (pages[loaded] = load_page(tier, tokens, loaded)) >= 0) {
        loaded++;
    }
    return loaded;
}

/* The snapshot at the end of `end` pages, which goes into the cache with them. */
static bool load_snapshot(struct prefix_tier *tier, const int32_t *tokens, int32_t end, int32_t *pages) {
    struct engine_core *core = tier->options.core;
    bool has_draft_rows;
    int32_t slot;
    if (!prefix_disk_read(tier->disk, &tier->keys[end - 1], PREFIX_ENTRY_SNAPSHOT,
                          page_start(tier, tokens, end - 1), tier->payload, &has_draft_rows) ||
        prefix_cache_publish(tier->options.cache, tokens, end * tier->page_tokens, pages, has_draft_rows,
                             &slot) != STATUS_OK ||
        slot < 0) {
        return false;
    }
    enum status status = state_pool_write_slot(&core->states, core->stream, slot, tier->payload);
    if (status == STATUS_OK && has_draft_rows && tier->saved_row_bytes > 0) {
        status = executor_write_saved_row(core->executor, slot, tier->payload + core->states.snapshot_bytes);
    }
    if (status != STATUS_OK || !synchronize(tier)) {
        prefix_cache_drop_snapshot(tier->options.cache, tokens, end * tier->page_tokens);
        return false;
    }
    return true;
}

bool prefix_tier_fetch(struct prefix_tier *tier, const int32_t *tokens, int32_t limit, int32_t known_tokens,
                       int32_t *pages, int64_t spare_pages, const struct step_plan *pending,
                       bool *is_carried_out) {
    int32_t known = known_tokens / tier->page_tokens;
    int32_t count = limit / tier->page_tokens;
    if (count <= known || !make_keys(tier, tokens, count)) {
        return false;
    }
    int32_t end = find_end(tier, known, count);
    int64_t available = tier->options.pages->free_count +
                        prefix_cache_counters(tier->options.cache).unused_pages - spare_pages;
    if (end == known || end - known > available || !carry_out(tier, pending, is_carried_out)) {
        return false;
    }
    int32_t loaded = load_pages(tier, tokens, known, end, pages);
    bool is_loaded = loaded == end && load_snapshot(tier, tokens, end, pages);
    for (int32_t i = known; i < loaded; i++) {
        page_pool_drop_reference(tier->options.pages, pages[i]);
    }
    return is_loaded;
}

/* Writes a page behind; false if the disk does not keep up. */
static bool keep_page(struct prefix_tier *tier, const int32_t *tokens, int32_t index, int32_t page) {
    struct engine_core *core = tier->options.core;
    struct prefix_disk_buffer *buffer = prefix_disk_reserve(tier->disk, PREFIX_ENTRY_PAGE);
    if (buffer == NULL) {
        return false;
    }
    if (state_pool_read_page(&core->states, core->stream, page, buffer->payload) != STATUS_OK ||
        !synchronize(tier)) {
        prefix_disk_cancel(tier->disk, buffer);
        return false;
    }
    prefix_disk_submit(tier->disk, buffer, &tier->keys[index], page_start(tier, tokens, index), false);
    return true;
}

static void keep_snapshot(struct prefix_tier *tier, const int32_t *tokens, int32_t index, int32_t slot,
                          bool has_draft_rows) {
    struct engine_core *core = tier->options.core;
    struct prefix_disk_buffer *buffer = prefix_disk_reserve(tier->disk, PREFIX_ENTRY_SNAPSHOT);
    if (buffer == NULL) {
        return;
    }
    unsigned char *saved_row = buffer->payload + core->states.snapshot_bytes;
    memset(saved_row, 0, tier->saved_row_bytes);
    enum status status = state_pool_read_slot(&core->states, core->stream, slot, buffer->payload);
    if (status == STATUS_OK && has_draft_rows && tier->saved_row_bytes > 0) {
        status = executor_read_saved_row(core->executor, slot, saved_row);
    }
    if (status != STATUS_OK || !synchronize(tier)) {
        prefix_disk_cancel(tier->disk, buffer);
        return;
    }
    prefix_disk_submit(tier->disk, buffer, &tier->keys[index], page_start(tier, tokens, index),
                       has_draft_rows);
}

void prefix_tier_keep(struct prefix_tier *tier, const int32_t *tokens, int32_t token_count,
                      const int32_t *pages, int32_t snapshot_slot, bool has_draft_rows,
                      const struct step_plan *pending, bool *is_carried_out) {
    int32_t count = token_count / tier->page_tokens;
    if (!make_keys(tier, tokens, count) || !carry_out(tier, pending, is_carried_out)) {
        return;
    }
    /* What is missing lies at the end: an entry is written after those that it builds on. */
    int32_t first = count;
    while (first > 0 && !has_page(tier, first - 1)) {
        first--;
    }
    for (int32_t i = first; i < count; i++) {
        if (!keep_page(tier, tokens, i, pages[i])) {
            return;
        }
    }
    keep_snapshot(tier, tokens, count - 1, snapshot_slot, has_draft_rows);
}

struct prefix_disk_counters prefix_tier_counters(struct prefix_tier *tier) {
    return prefix_disk_counters(tier->disk);
}
