/* Nearly all tokens may follow in the middle of a text: what costs is counted in nodes that are looked at. */
#include "text/grammar/token_walk.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/automaton_internal.h"

/* Below fewer nodes it takes longer to look whether all of them can follow than to go through them. */
enum { SUBTREE_NODES_MIN = 2 };

/* Whether the characters ahead of a node can follow the set: they do as most do, however many there are. */
static bool can_all_follow(const struct token_walk *walk, uint32_t node, uint32_t set) {
    uint64_t groups = walk->trie->groups_ahead[node];
    for (uint32_t i = 0; i < walk->trie->characters_ahead[node]; i++) {
        struct uniform_step step = automaton_uniform_step(walk->automaton, set);
        if ((groups & ~step.groups) != 0) {
            return false;
        }
        if (step.next == set) {
            return true;
        }
        set = step.next;
    }
    return (groups & TOKEN_TRIE_MALFORMED) == 0;
}

static void mark_tokens(struct token_walk *walk, uint32_t first, uint32_t end) {
    for (; first < end && first % 32 != 0; first++) {
        walk->marks[first / 32] |= UINT32_C(1) << first % 32;
    }
    for (; first + 32 <= end; first += 32) {
        walk->marks[first / 32] = UINT32_MAX;
    }
    for (; first < end; first++) {
        walk->marks[first / 32] |= UINT32_C(1) << first % 32;
    }
}

/* Where a walk is at a depth. */
struct walk_place {
    uint32_t set;
    bool may_end;
};

static void walk_nodes(struct token_walk *walk, struct walk_place *places) {
    const struct token_trie *trie = walk->trie;
    for (uint32_t node = 0; node < trie->node_count;) {
        const struct walk_place *before = &places[trie->depths[node] - 1];
        uint32_t end = trie->subtree_ends[node];
        uint32_t next = automaton_step(walk->automaton, before->set, trie->bytes[node]);
        if (next == GRAMMAR_SET_DEAD) {
            node = end;
            continue;
        }
        bool is_lead = token_trie_is_lead(trie->bytes[node]);
        if (end - node > SUBTREE_NODES_MIN && (walk->is_thorough || next == before->set) &&
            can_all_follow(walk, node, is_lead ? before->set : next)) {
            mark_tokens(walk, trie->token_offsets[node], trie->token_offsets[end]);
            node = end;
            continue;
        }
        bool may_end =
            next == before->set ? before->may_end : grammar_automaton_may_end(walk->automaton, next);
        places[trie->depths[node]] = (struct walk_place){next, may_end};
        mark_tokens(walk, trie->token_offsets[node], trie->token_offsets[node + 1]);
        if (may_end && walk->end_nodes != NULL && end > node + 1) {
            walk->end_nodes[walk->end_node_count++] = node;
        }
        node++;
    }
}

bool token_walk_run(struct token_walk *walk, uint32_t set) {
    struct grammar_automaton *automaton = walk->automaton;
    walk->mark_count = walk->trie->token_offsets[walk->trie->node_count];
    walk->marks = calloc(walk->mark_count / 32 + 1, sizeof *walk->marks);
    struct walk_place *places = malloc((walk->trie->depth_max + 1) * sizeof *places);
    if (walk->marks == NULL || places == NULL) {
        automaton->is_out_of_memory = true;
    } else {
        places[0] = (struct walk_place){set, grammar_automaton_may_end(automaton, set)};
        walk_nodes(walk, places);
    }
    free(places);
    return !automaton->is_out_of_memory;
}

bool token_walk_has(const struct token_walk *walk, uint32_t index) {
    return (walk->marks[index / 32] >> index % 32 & 1) != 0;
}

/* Sets, or clears, the tokens of a word's marks. */
static void change_tokens(const int32_t *tokens, uint32_t marks, bool is_set, uint32_t *words) {
    for (; marks != 0; marks &= marks - 1) {
        int32_t token = tokens[__builtin_ctz(marks)];
        uint32_t bit = UINT32_C(1) << token % 32;
        words[token / 32] = is_set ? words[token / 32] | bit : words[token / 32] & ~bit;
    }
}

void token_walk_add(const struct token_walk *walk, uint32_t *words) {
    for (uint32_t i = 0; i <= walk->mark_count / 32; i++) {
        change_tokens(walk->trie->tokens + 32 * (size_t)i, walk->marks[i], true, words);
    }
}

void token_walk_deinit(struct token_walk *walk) {
    free(walk->marks);
    walk->marks = NULL;
}
