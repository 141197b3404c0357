/*
 * Byte strings with numbers, laid out so that a walk can leave out everything below a prefix.
 *
 * Nodes stand in preorder; a walk goes through them in this order, keeps what belongs to each depth, and
 * jumps to the end of a node's subtree if its byte leads nowhere. Immutable; any thread may read it.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_TRIE_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/grammar/character_groups.h"

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
    /* By node, of the characters ahead: from its own on if that begins with it and has more bytes, else those
       below it. The last one may be cut off. */
    struct character_groups *groups_ahead; /* of all that occur */
    uint32_t *characters_ahead;            /* most of them in one token */
    int32_t *tokens;
};

/* Whether a byte begins a character of several. */
static inline bool token_trie_is_lead(uint8_t byte) {
    return byte >= 0xC2;
}

/* Sorts the entries. Owned: token_trie_deinit. */
enum status token_trie_init(struct token_trie *trie, struct token_trie_entry *entries, size_t count);
void token_trie_deinit(struct token_trie *trie);

size_t token_trie_bytes(const struct token_trie *trie);

#endif
