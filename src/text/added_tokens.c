/* Nodes in one array; the children of a node are a list. Node 0 is nobody's child and means "none". */
#include "text/added_tokens.h"

#include <stdlib.h>

struct added_token_node {
    uint32_t first_child;
    uint32_t next_sibling;
    int32_t id; /* of the token that ends here, -1 if none does */
    unsigned char byte;
};

void added_tokens_deinit(struct added_tokens *tokens) {
    free(tokens->nodes);
    *tokens = (struct added_tokens){0};
}

static enum status add_node(struct added_tokens *tokens, unsigned char byte, uint32_t *out) {
    if (tokens->node_count == tokens->capacity) {
        CHECK(tokens->capacity < UINT32_MAX / 2, STATUS_OUT_OF_RANGE, "the added tokens have too much text");
        uint32_t capacity = tokens->capacity == 0 ? 256 : tokens->capacity * 2;
        struct added_token_node *nodes = realloc(tokens->nodes, capacity * sizeof *nodes);
        CHECK_MEMORY(nodes);
        tokens->nodes = nodes;
        tokens->capacity = capacity;
    }
    if (tokens->node_count == 0) {
        tokens->nodes[tokens->node_count++] = (struct added_token_node){.id = -1};
    }
    *out = tokens->node_count;
    tokens->nodes[tokens->node_count++] = (struct added_token_node){.id = -1, .byte = byte};
    return STATUS_OK;
}

static uint32_t find_child(const struct added_tokens *tokens, uint32_t node, unsigned char byte) {
    uint32_t child = tokens->nodes[node].first_child;
    while (child != 0 && tokens->nodes[child].byte != byte) {
        child = tokens->nodes[child].next_sibling;
    }
    return child;
}

enum status added_tokens_add(struct added_tokens *tokens, const char *text, size_t length, int32_t id) {
    const unsigned char *bytes = (const unsigned char *)text;
    if (tokens->first_nodes[bytes[0]] == 0) {
        TRY(add_node(tokens, bytes[0], &tokens->first_nodes[bytes[0]]));
    }
    uint32_t node = tokens->first_nodes[bytes[0]];
    for (size_t i = 1; i < length; i++) {
        uint32_t child = find_child(tokens, node, bytes[i]);
        if (child == 0) {
            TRY(add_node(tokens, bytes[i], &child));
            tokens->nodes[child].next_sibling = tokens->nodes[node].first_child;
            tokens->nodes[node].first_child = child;
        }
        node = child;
    }
    tokens->nodes[node].id = id;
    return STATUS_OK;
}

/* The longest token that starts at `start`. */
static bool match_at(const struct added_tokens *tokens, const unsigned char *bytes, size_t length,
                     size_t start, struct added_token_match *out) {
    bool is_found = false;
    uint32_t node = tokens->first_nodes[bytes[start]];
    for (size_t end = start + 1; node != 0; end++) {
        if (tokens->nodes[node].id >= 0) {
            *out = (struct added_token_match){start, end, tokens->nodes[node].id};
            is_found = true;
        }
        if (end == length) {
            break;
        }
        node = find_child(tokens, node, bytes[end]);
    }
    return is_found;
}

bool added_tokens_find(const struct added_tokens *tokens, const char *text, size_t length, size_t offset,
                       struct added_token_match *out) {
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t start = offset; start < length; start++) {
        if (tokens->first_nodes[bytes[start]] != 0 && match_at(tokens, bytes, length, start, out)) {
            return true;
        }
    }
    return false;
}
