/*
 * Masks. What a state accepts is found by one walk over the tokens that starts there and sees no further than
 * the end of the state's rule. Tokens that go on beyond it are kept by the bytes that are left over, so that
 * one check decides for all tokens that end alike. If they are too many, as for rules of a character or two,
 * the tokens are walked for each set instead.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/automaton_internal.h"
#include "text/grammar/token_walk.h"

enum { BEYOND_MAX = 20000 };

/* What one state accepts. */
struct state_tokens {
    const struct token_set *within; /* tokens that end inside the rule or at its end */
    struct token_trie beyond;       /* what is left of the others behind the rule's end */
    bool is_walked_each_time;       /* too many of those: neither is used */
};

/* NULL is allowed. */
static void free_state_tokens(struct state_tokens *tokens) {
    if (tokens != NULL) {
        token_trie_deinit(&tokens->beyond);
        free(tokens);
    }
}

void automaton_forget_tokens(struct grammar_automaton *automaton) {
    for (uint32_t i = 0; i < automaton->grammar->state_count; i++) {
        free_state_tokens(automaton->state_tokens[i]);
        automaton->state_tokens[i] = NULL;
    }
    chunk_table_clear(&automaton->masks);
    token_sets_clear(&automaton->token_sets);
    automaton->state_bytes = 0;
}

static bool has_token(const uint32_t *words, int32_t token) {
    return (words[token / 32] >> token % 32 & 1) != 0;
}

/*
 * Collects what is left of the tokens below the end nodes that cannot follow within the rule; NULL: only
 * counts them. Returns how many, or more than BEYOND_MAX.
 */
static size_t collect_beyond(const struct token_walk *walk, struct token_trie_entry *entries) {
    const struct token_trie *trie = walk->trie;
    size_t count = 0;
    for (uint32_t i = 0; i < walk->end_node_count && count <= BEYOND_MAX; i++) {
        uint32_t node = walk->end_nodes[i];
        uint32_t end = trie->token_offsets[trie->subtree_ends[node]];
        for (uint32_t j = trie->token_offsets[node + 1]; j < end && count <= BEYOND_MAX; j++) {
            if (has_token(walk->words, trie->tokens[j])) {
                continue;
            }
            if (entries != NULL) {
                size_t length;
                const char *bytes =
                    token_vocabulary_text(walk->automaton->vocabulary, trie->tokens[j], &length);
                uint32_t read = trie->depths[node];
                entries[count] =
                    (struct token_trie_entry){bytes + read, (uint32_t)length - read, trie->tokens[j]};
            }
            count++;
        }
    }
    return count;
}

static bool fill_beyond(struct state_tokens *tokens, const struct token_walk *walk, size_t count) {
    struct token_trie_entry *entries = malloc(count * sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    collect_beyond(walk, entries);
    enum status status = token_trie_init(&tokens->beyond, entries, count);
    free(entries);
    return status == STATUS_OK;
}

static bool fill_state_tokens(struct state_tokens *tokens, const struct token_walk *walk) {
    size_t count = collect_beyond(walk, NULL);
    tokens->is_walked_each_time = count > BEYOND_MAX;
    if (tokens->is_walked_each_time) {
        return true;
    }
    tokens->within =
        token_sets_find(&walk->automaton->token_sets, walk->words, walk->automaton->vocabulary->word_count);
    return tokens->within != NULL && (count == 0 || fill_beyond(tokens, walk, count));
}

/* Whether nothing calls the rule of a state: nothing is behind it. */
static bool is_outermost(const struct grammar *grammar, uint32_t state) {
    return state >= grammar->outer_first && state < grammar->outer_end;
}

/* The walk that finds what a state accepts, and whether it succeeds. */
static bool find_state_tokens(struct grammar_automaton *automaton, uint32_t state,
                              struct state_tokens *tokens) {
    const struct token_vocabulary *vocabulary = automaton->vocabulary;
    struct token_walk walk = {.automaton = automaton,
                              .trie = &vocabulary->trie,
                              .characters = &vocabulary->characters,
                              .is_thorough = true,
                              .words = automaton->state_words};
    if (!is_outermost(automaton->grammar, state)) {
        walk.end_nodes = malloc((vocabulary->trie.node_count + 1) * sizeof *walk.end_nodes);
        if (walk.end_nodes == NULL) {
            return false;
        }
    }
    uint32_t set = automaton_set_of_places(automaton, &(struct config){state, GRAMMAR_FRAME_END}, 1);
    memset(walk.words, 0, vocabulary->word_count * sizeof *walk.words);
    bool is_done = token_walk_run(&walk, set) && fill_state_tokens(tokens, &walk);
    free(walk.end_nodes);
    return is_done;
}

/* What the state accepts; NULL if memory is out. */
static const struct state_tokens *state_tokens_of(struct grammar_automaton *automaton, uint32_t state) {
    if (automaton->state_tokens[state] != NULL) {
        return automaton->state_tokens[state];
    }
    struct state_tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL || !find_state_tokens(automaton, state, tokens)) {
        automaton->is_out_of_memory = true;
        free_state_tokens(tokens);
        return NULL;
    }
    automaton->state_bytes += sizeof *tokens + token_trie_bytes(&tokens->beyond);
    automaton->state_tokens[state] = tokens;
    return tokens;
}

/*
 * Adds the tokens that may follow at places of one state, which differ in what comes behind their rules: one
 * walk for all of them.
 */
static void add_places(struct grammar_automaton *automaton, const struct config *places, uint32_t count,
                       uint32_t *words) {
    const struct state_tokens *tokens = state_tokens_of(automaton, places[0].state);
    if (tokens == NULL) {
        return;
    }
    struct token_walk walk = {.automaton = automaton, .words = words};
    if (tokens->is_walked_each_time) {
        walk.trie = &automaton->vocabulary->trie;
        walk.characters = &automaton->vocabulary->characters;
        token_walk_run(&walk, automaton_set_of_places(automaton, places, count));
        return;
    }
    token_set_add_to(tokens->within, words);
    if (tokens->beyond.node_count > 0) {
        walk.trie = &tokens->beyond;
        token_walk_run(&walk, automaton_set_behind(automaton, places, count));
    }
}

/* The same for all places of a set, which are sorted by their states. */
static void add_set_places(struct grammar_automaton *automaton, uint32_t set, uint32_t *words) {
    struct config_span places = config_lists_get(&automaton->sets, set);
    for (uint32_t first = 0, end = 0; first < places.count; first = end) {
        while (end < places.count && places.items[end].state == places.items[first].state) {
            end++;
        }
        if (places.items[first].state != GRAMMAR_END) {
            add_places(automaton, places.items + first, end - first, words);
        }
    }
}

static void add_controls(struct grammar_automaton *automaton, uint32_t set, uint32_t *words) {
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        int32_t id = automaton->vocabulary->control_ids[i];
        if (id >= 0 &&
            grammar_automaton_step(automaton, set, GRAMMAR_BYTES + (uint32_t)i) != GRAMMAR_SET_DEAD) {
            words[id / 32] |= UINT32_C(1) << id % 32;
        }
    }
}

/* The mask, worked out; NULL if memory is out. */
static const struct token_set *make_mask(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t word_count = automaton->vocabulary->word_count;
    memset(automaton->mask_words, 0, word_count * sizeof *automaton->mask_words);
    add_set_places(automaton, set, automaton->mask_words);
    if (automaton->grammar->has_controls) {
        add_controls(automaton, set, automaton->mask_words);
    }
    return automaton->is_out_of_memory
               ? NULL
               : token_sets_find(&automaton->token_sets, automaton->mask_words, word_count);
}

bool grammar_automaton_prepare(struct grammar_automaton *automaton, uint32_t state) {
    bool is_wanted = automaton->grammar->states[state].edge_count > 0;
    return grammar_automaton_bytes(automaton) <= automaton->byte_limit / 2 &&
           (!is_wanted || state_tokens_of(automaton, state) != NULL);
}

const struct token_set *grammar_automaton_tokens(struct grammar_automaton *automaton, uint32_t set) {
    if (!chunk_table_reserve(&automaton->masks, set)) {
        automaton->is_out_of_memory = true;
        return NULL;
    }
    const struct token_set **mask = chunk_table_at(&automaton->masks, set);
    if (*mask == NULL) {
        *mask = make_mask(automaton, set);
        automaton->is_out_of_memory |= *mask == NULL;
    }
    return *mask;
}
