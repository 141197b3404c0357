/*
 * Finds added tokens in a text: leftmost first, the longest at each place.
 *
 * A trie over bytes. Its contents are UTF-8, so a match in valid UTF-8 starts and ends between characters.
 * A search looks at each byte at most as often as the longest token has bytes. Built once, then read by any
 * thread.
 */
#ifndef SLUICE_TEXT_ADDED_TOKENS_H
#define SLUICE_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct added_token_node;

struct added_tokens {
    struct added_token_node *nodes;
    uint32_t node_count;
    uint32_t capacity;
    uint32_t first_nodes[256]; /* by a token's first byte; 0 if none starts so */
};

struct added_token_match {
    size_t start, end; /* bytes */
    int32_t id;
};

/* Frees all; a zeroed struct is an empty set. */
void added_tokens_deinit(struct added_tokens *tokens);

/* Adds a token of `length` > 0 bytes. The caller has checked that its text is new. */
enum status added_tokens_add(struct added_tokens *tokens, const char *text, size_t length, int32_t id);

/* The first match that starts at `offset` or later. False if there is none. */
bool added_tokens_find(const struct added_tokens *tokens, const char *text, size_t length, size_t offset,
                       struct added_token_match *out);

#endif
