#include "engine/prefix_model.h"

#include <string.h>

int32_t model_sequence_references(const struct model *model, int32_t page) {
    int32_t count = 0;
    for (int s = 0; s < MODEL_SEQUENCES; s++) {
        const struct model_sequence *sequence = &model->sequences[s];
        for (int i = 0; sequence->is_running && i < sequence->prefix.token_count; i += MODEL_PAGE_TOKENS) {
            count += sequence->pages[i / MODEL_PAGE_TOKENS] == page;
        }
    }
    return count;
}

static bool starts_with(const struct model_prefix *prefix, const int32_t *tokens, int32_t token_count) {
    return prefix->token_count >= token_count &&
           memcmp(prefix->tokens, tokens, (size_t)token_count * sizeof *tokens) == 0;
}

struct model_entry *model_find(struct model *model, const int32_t *tokens, int32_t token_count) {
    for (int32_t i = 0; i < model->entry_count; i++) {
        struct model_entry *entry = &model->entries[i];
        if (entry->prefix.token_count == token_count && starts_with(&entry->prefix, tokens, token_count)) {
            return entry;
        }
    }
    return NULL;
}

struct model_entry *model_find_page(struct model *model, int32_t page) {
    for (int32_t i = 0; i < model->entry_count; i++) {
        if (model->entries[i].page == page) {
            return &model->entries[i];
        }
    }
    return NULL;
}

struct prefix_match model_match(struct model *model, const int32_t *tokens, int32_t limit, int32_t *pages) {
    struct prefix_match match = {.snapshot_slot = -1};
    struct model_entry *best = NULL;
    for (int32_t count = MODEL_PAGE_TOKENS; count <= limit; count += MODEL_PAGE_TOKENS) {
        struct model_entry *entry = model_find(model, tokens, count);
        if (entry != NULL) {
            match.cached_token_count = count;
        }
        if (entry != NULL && entry->slot >= 0) {
            best = entry;
        }
    }
    if (best == NULL) {
        return match;
    }
    match.token_count = best->prefix.token_count;
    match.snapshot_slot = best->slot;
    match.has_draft_rows = best->has_draft_rows;
    best->snapshot_use = ++model->clock;
    model->hits++;
    model->hit_tokens += match.token_count;
    for (int32_t i = 0; i < match.token_count / MODEL_PAGE_TOKENS; i++) {
        pages[i] = model_find(model, tokens, (i + 1) * MODEL_PAGE_TOKENS)->page;
    }
    return match;
}

static struct model_entry *oldest_snapshot(struct model *model, int *count) {
    struct model_entry *oldest = NULL;
    *count = 0;
    for (int32_t i = 0; i < model->entry_count; i++) {
        struct model_entry *entry = &model->entries[i];
        if (entry->slot >= 0) {
            (*count)++;
            oldest = oldest == NULL || entry->snapshot_use < oldest->snapshot_use ? entry : oldest;
        }
    }
    return oldest;
}

static bool is_free_slot(const struct model *model, int32_t slot) {
    for (int32_t i = 0; i < model->entry_count; i++) {
        if (model->entries[i].slot == slot) {
            return false;
        }
    }
    return slot >= MODEL_FIRST_SLOT && slot < MODEL_FIRST_SLOT + MODEL_SNAPSHOTS;
}

/* The slot of a new snapshot: any free one, else the oldest's. */
static int32_t take_slot(struct model *model, int32_t proposed) {
    int count;
    struct model_entry *oldest = oldest_snapshot(model, &count);
    if (count < MODEL_SNAPSHOTS) {
        return is_free_slot(model, proposed) ? proposed : -1;
    }
    int32_t slot = oldest->slot;
    oldest->slot = -1;
    model->evicted_snapshots++;
    return slot;
}

int32_t model_publish(struct model *model, const struct model_sequence *sequence, int32_t token_count,
                      bool has_draft_rows, int32_t slot) {
    struct model_entry *end = NULL;
    for (int32_t count = MODEL_PAGE_TOKENS; count <= token_count; count += MODEL_PAGE_TOKENS) {
        end = model_find(model, sequence->prefix.tokens, count);
        if (end == NULL) {
            end = &model->entries[model->entry_count++];
            *end = (struct model_entry){.page = sequence->pages[count / MODEL_PAGE_TOKENS - 1], .slot = -1};
            end->prefix = sequence->prefix;
            end->prefix.token_count = count;
        }
    }
    if (end == NULL) {
        return -1;
    }
    int32_t expected = -1;
    if (end->slot < 0) {
        expected = end->slot = take_slot(model, slot);
        end->has_draft_rows = has_draft_rows;
    } else if (has_draft_rows && !end->has_draft_rows) {
        expected = end->slot;
        end->has_draft_rows = true;
    }
    end->snapshot_use = ++model->clock;
    end->last_use = ++model->clock;
    return expected;
}

static bool has_child(const struct model *model, const struct model_entry *entry) {
    for (int32_t i = 0; i < model->entry_count; i++) {
        const struct model_prefix *other = &model->entries[i].prefix;
        if (other->token_count > entry->prefix.token_count &&
            starts_with(other, entry->prefix.tokens, entry->prefix.token_count)) {
            return true;
        }
    }
    return false;
}

static struct model_entry *next_to_go(struct model *model) {
    struct model_entry *next = NULL;
    for (int32_t i = 0; i < model->entry_count; i++) {
        struct model_entry *entry = &model->entries[i];
        if (has_child(model, entry) || model_sequence_references(model, entry->page) > 0) {
            continue;
        }
        if (next == NULL || (entry->slot < 0 && next->slot >= 0) ||
            ((entry->slot < 0) == (next->slot < 0) && entry->last_use < next->last_use)) {
            next = entry;
        }
    }
    return next;
}

int32_t model_free_pages(struct model *model) {
    int32_t count = 0;
    for (int32_t page = 0; page < MODEL_PAGES; page++) {
        count += model_sequence_references(model, page) == 0 && model_find_page(model, page) == NULL;
    }
    return count;
}

int32_t model_evict(struct model *model, int32_t page_count) {
    struct model_entry *next;
    while (model_free_pages(model) < page_count && (next = next_to_go(model)) != NULL) {
        model->evicted_pages++;
        model->evicted_snapshots += next->slot >= 0;
        *next = model->entries[--model->entry_count];
    }
    return model_free_pages(model);
}

void model_drop_snapshot(struct model *model, const int32_t *tokens, int32_t token_count) {
    struct model_entry *entry = model_find(model, tokens, token_count);
    if (entry != NULL) {
        entry->slot = -1;
    }
}

void model_clear(struct model *model) {
    model->entry_count = 0;
}

void model_release(struct model *model, int32_t page) {
    struct model_entry *entry = model_find_page(model, page);
    if (entry != NULL && model_sequence_references(model, page) == 0) {
        entry->last_use = ++model->clock;
    }
}
