/* In sorted order an entry shares a prefix with the one before it: the nodes of the rest are new. */
#include "text/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

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

/* The node at a depth is complete: its parent is the one before it. */
static void close_node(struct token_trie *trie, const uint32_t *open_nodes, uint32_t depth) {
    uint32_t node = open_nodes[depth];
    trie->subtree_ends[node] = trie->node_count;
    if (depth > 0) {
        trie->groups_below[open_nodes[depth - 1]] |=
            trie->groups_below[node] | token_trie_group(trie->bytes[node]);
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
            close_node(trie, open_nodes, --open_count);
        }
        for (uint32_t depth = kept; depth < entries[i].length; depth++) {
            uint32_t node = trie->node_count++;
            trie->bytes[node] = (uint8_t)entries[i].bytes[depth];
            trie->depths[node] = depth + 1;
            trie->token_offsets[node] = (uint32_t)i;
            trie->groups_below[node] = 0;
            open_nodes[open_count++] = node;
        }
        trie->tokens[i] = entries[i].token;
    }
    while (open_count > 0) {
        close_node(trie, open_nodes, --open_count);
    }
    trie->token_offsets[trie->node_count] = (uint32_t)count;
}

enum status token_trie_init(struct token_trie *trie, struct token_trie_entry *entries, size_t count) {
    *trie = (struct token_trie){0};
    enum status status = STATUS_OK;
    uint32_t *open_nodes = NULL;
    qsort(entries, count, sizeof *entries, compare_entries);
    for (size_t i = 0; i < count; i++) {
        trie->depth_max = entries[i].length > trie->depth_max ? entries[i].length : trie->depth_max;
    }
    size_t node_count = count_nodes(entries, count);
    CHECK_GOTO(node_count < UINT32_MAX, STATUS_OUT_OF_RANGE, "the tokens have more than 4 GiB of text");
    trie->bytes = malloc(node_count + 1);
    trie->depths = malloc((node_count + 1) * sizeof *trie->depths);
    trie->subtree_ends = malloc((node_count + 1) * sizeof *trie->subtree_ends);
    trie->token_offsets = malloc((node_count + 1) * sizeof *trie->token_offsets);
    trie->groups_below = malloc((node_count + 1) * sizeof *trie->groups_below);
    trie->tokens = malloc((count + 1) * sizeof *trie->tokens);
    open_nodes = malloc((trie->depth_max + 1) * sizeof *open_nodes);
    CHECK_GOTO(trie->bytes != NULL && trie->depths != NULL && trie->subtree_ends != NULL &&
                   trie->token_offsets != NULL && trie->groups_below != NULL && trie->tokens != NULL &&
                   open_nodes != NULL,
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
    free(trie->groups_below);
    free(trie->tokens);
    *trie = (struct token_trie){0};
}

size_t token_trie_bytes(const struct token_trie *trie) {
    return trie->node_count * (sizeof *trie->bytes + 3 * sizeof *trie->depths + sizeof *trie->groups_below);
}
