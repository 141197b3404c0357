/*
 * Byte strings with numbers, laid out so that a walk can leave out everything below a prefix.
 *
 * Nodes stand in preorder; a walk goes through them in this order, keeps what belongs to each depth, and
 * jumps to the end of a node's subtree if its byte leads nowhere. Immutable; any thread may read it.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_TRIE_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct token_trie_entry {
    const char *bytes; /* borrowed while the trie is built */
    uint32_t length;   /* 1 or more */
    int32_t token;
};

struct token_trie {
    uint32_t node_count;
    uint32_t depth_max;
    uint8_t *bytes;          /* by node */
    uint32_t *depths;        /* by node: 1 for the first byte */
    uint32_t *subtree_ends;  /* by node: the first node behind its subtree */
    uint32_t *token_offsets; /* by node and one more */
    uint64_t *groups_below;  /* by node: groups of the bytes that stand below it */
    int32_t *tokens;
};

/*
 * The group of a byte, as a bit: pairs of ASCII, and one for all other bytes together with the first two. If
 * a set of bytes holds whole groups, what stands below a node is in it if the node's groups are.
 */
static inline uint64_t token_trie_group(uint8_t byte) {
    return UINT64_C(1) << (byte < 0x80 ? byte / 2 : 0);
}

/* Sorts the entries. Owned: token_trie_deinit. */
enum status token_trie_init(struct token_trie *trie, struct token_trie_entry *entries, size_t count);
void token_trie_deinit(struct token_trie *trie);

size_t token_trie_bytes(const struct token_trie *trie);

#endif
