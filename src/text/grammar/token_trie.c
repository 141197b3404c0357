/* In sorted order an entry shares a prefix with the one before it: the nodes of the rest are new. */
#include "text/grammar/token_trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_continuation(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

static int compare_entries(const void *a, const void *b) {
    const struct token_trie_entry *left = a;
    const struct token_trie_entry *right = b;
    uint32_t common = left->length < right->length ? left->length : right->length;
    int order = memcmp(left->bytes, right->bytes, common);
    if (order != 0 || left->length != right->length) {
        return order != 0 ? order : (left->length > right->length) - (left->length < right->length);
    }
    return (left->token > right->token) - (left->token < right->token);
}

/* What is left of the tokens behind one place is. */
static bool are_sorted(const struct token_trie_entry *entries, size_t count) {
    size_t i = 1;
    while (i < count && compare_entries(&entries[i - 1], &entries[i]) <= 0) {
        i++;
    }
    return i >= count;
}

static uint32_t common_length(const struct token_trie_entry *a, const struct token_trie_entry *b) {
    uint32_t length = 0;
    while (length < a->length && length < b->length && a->bytes[length] == b->bytes[length]) {
        length++;
    }
    return length;
}

static size_t count_nodes(const struct token_trie_entry *entries, size_t count) {
    size_t nodes = 0;
    for (size_t i = 0; i < count; i++) {
        nodes += entries[i].length - (i == 0 ? 0 : common_length(&entries[i - 1], &entries[i]));
    }
    return nodes;
}

/* Adds to each node of an entry what stands ahead of it. */
static void note_characters(struct token_trie *trie, const struct token_trie_entry *entry,
                            const uint32_t *open_nodes) {
    struct character_groups groups = {{0}};
    uint32_t characters = 0;
    for (uint32_t depth = entry->length; depth-- > 0;) {
        uint32_t node = open_nodes[depth];
        bool is_within = depth + 1 < entry->length && is_continuation(entry->bytes[depth + 1]);
        struct character_groups groups_behind = groups;
        if (is_within) {
            groups_add(&groups_behind, CHARACTER_GROUP_MALFORMED);
        }
        uint32_t characters_behind = characters;
        if (!is_continuation(entry->bytes[depth])) {
            groups_add(&groups, character_group_at(entry->bytes + depth, entry->length - depth));
            characters++;
        }
        bool is_lead = token_trie_is_lead((uint8_t)entry->bytes[depth]);
        trie->groups_ahead[node] = groups_or(trie->groups_ahead[node], is_lead ? groups : groups_behind);
        uint32_t ahead = is_lead ? characters : characters_behind;
        if (ahead > trie->characters_ahead[node]) {
            trie->characters_ahead[node] = ahead;
        }
    }
}

/*
 * A node's tokens are those from its offset to the offset of the next node. All new nodes of an entry have
 * the entry's index there, so that none but the last has a token.
 */
static void fill(struct token_trie *trie, const struct token_trie_entry *entries, size_t count,
                 uint32_t *open_nodes) {
    uint32_t open_count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t kept = i == 0 ? 0 : common_length(&entries[i - 1], &entries[i]);
        while (open_count > kept) {
            trie->subtree_ends[open_nodes[--open_count]] = trie->node_count;
        }
        for (uint32_t depth = kept; depth < entries[i].length; depth++) {
            uint32_t node = trie->node_count++;
            trie->bytes[node] = (uint8_t)entries[i].bytes[depth];
            trie->depths[node] = depth + 1;
            trie->token_offsets[node] = (uint32_t)i;
            trie->groups_ahead[node] = (struct character_groups){{0}};
            trie->characters_ahead[node] = 0;
            open_nodes[open_count++] = node;
        }
        note_characters(trie, &entries[i], open_nodes);
        trie->tokens[i] = entries[i].token;
    }
    while (open_count > 0) {
        trie->subtree_ends[open_nodes[--open_count]] = trie->node_count;
    }
    trie->token_offsets[trie->node_count] = (uint32_t)count;
}

enum status token_trie_init(struct token_trie *trie, struct token_trie_entry *entries, size_t count) {
    *trie = (struct token_trie){0};
    enum status status = STATUS_OK;
    uint32_t *open_nodes = NULL;
    if (!are_sorted(entries, count)) {
        qsort(entries, count, sizeof *entries, compare_entries);
    }
    for (size_t i = 0; i < count; i++) {
        trie->depth_max = entries[i].length > trie->depth_max ? entries[i].length : trie->depth_max;
    }
    size_t node_count = count_nodes(entries, count);
    CHECK_GOTO(node_count < UINT32_MAX, STATUS_OUT_OF_RANGE, "the tokens have more than 4 GiB of text");
    trie->bytes = malloc(node_count + 1);
    trie->depths = malloc((node_count + 1) * sizeof *trie->depths);
    trie->subtree_ends = malloc((node_count + 1) * sizeof *trie->subtree_ends);
    trie->token_offsets = malloc((node_count + 1) * sizeof *trie->token_offsets);
    trie->groups_ahead = malloc((node_count + 1) * sizeof *trie->groups_ahead);
    trie->characters_ahead = malloc((node_count + 1) * sizeof *trie->characters_ahead);
    trie->tokens = malloc((count + 1) * sizeof *trie->tokens);
    open_nodes = malloc((trie->depth_max + 1) * sizeof *open_nodes);
    CHECK_GOTO(trie->bytes != NULL && trie->depths != NULL && trie->subtree_ends != NULL &&
                   trie->token_offsets != NULL && trie->groups_ahead != NULL &&
                   trie->characters_ahead != NULL && trie->tokens != NULL && open_nodes != NULL,
               STATUS_OUT_OF_MEMORY, "out of memory");
    fill(trie, entries, count, open_nodes);
fail:
    free(open_nodes);
    if (status != STATUS_OK) {
        token_trie_deinit(trie);
    }
    return status;
}

void token_trie_deinit(struct token_trie *trie) {
    free(trie->bytes);
    free(trie->depths);
    free(trie->subtree_ends);
    free(trie->token_offsets);
    free(trie->groups_ahead);
    free(trie->characters_ahead);
    free(trie->tokens);
    *trie = (struct token_trie){0};
}

size_t token_trie_bytes(const struct token_trie *trie) {
    return trie->node_count * (sizeof *trie->bytes + 4 * sizeof *trie->depths + sizeof *trie->groups_ahead);
}
