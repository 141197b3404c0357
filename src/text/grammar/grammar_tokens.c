/*
 * Masks. What a state accepts is found by one walk over all tokens that starts there and sees no further than
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
    struct token_set *within; /* tokens that end inside the rule or at its end */
    struct token_trie beyond; /* what is left of the others behind the rule's end */
    bool is_walked_each_time; /* too many of those: neither is used */
    size_t bytes;
};

void automaton_forget_tokens(struct grammar_automaton *automaton) {
    for (uint32_t i = 0; i < automaton->grammar->state_count; i++) {
        struct state_tokens *tokens = automaton->state_tokens[i];
        if (tokens != NULL) {
            free(tokens->within);
            token_trie_deinit(&tokens->beyond);
            free(tokens);
            automaton->state_tokens[i] = NULL;
        }
    }
    for (uint32_t set = 0; set < automaton->sets.list_count; set++) {
        struct token_set **mask = chunk_table_entry(&automaton->masks, set);
        if (mask != NULL) {
            free(*mask);
        }
    }
    chunk_table_clear(&automaton->masks);
    automaton->mask_bytes = 0;
}

/* The set of a mask. NULL if memory is out. */
static struct token_set *token_set_of(const uint32_t *words, uint32_t word_count) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < word_count && count <= word_count / 2; i++) {
        count += words[i] == 0 ? 0 : (uint32_t)__builtin_popcount(words[i]);
    }
    bool is_mask = count > word_count / 2;
    uint32_t value_count = is_mask ? word_count : count;
    struct token_set *set = malloc(sizeof *set + value_count * sizeof *set->values);
    if (set == NULL) {
        return NULL;
    }
    set->is_mask = is_mask;
    set->count = value_count;
    if (is_mask) {
        memcpy(set->values, words, word_count * sizeof *words);
        return set;
    }
    count = 0;
    for (uint32_t i = 0; i < word_count; i++) {
        for (uint32_t rest = words[i]; rest != 0; rest &= rest - 1) {
            set->values[count++] = 32 * i + (uint32_t)__builtin_ctz(rest);
        }
    }
    return set;
}

/* The tokens that a walk over the whole vocabulary has marked; NULL if memory is out. */
static struct token_set *marked_tokens(const struct token_walk *walk) {
    uint32_t word_count = walk->automaton->vocabulary->word_count;
    uint32_t *words = calloc(word_count + 1, sizeof *words);
    if (words == NULL) {
        return NULL;
    }
    token_walk_add(walk, words);
    struct token_set *set = token_set_of(words, word_count);
    free(words);
    return set;
}

static size_t token_set_bytes(const struct token_set *set) {
    return sizeof *set + set->count * sizeof *set->values;
}

/* Collects what is left of the tokens below the end nodes. False: too many, or memory is out. */
static bool collect_beyond(const struct token_walk *walk, struct token_trie_entry *entries, size_t *count) {
    const struct token_trie *trie = walk->trie;
    for (uint32_t i = 0; i < walk->end_node_count; i++) {
        uint32_t node = walk->end_nodes[i];
        uint32_t first = trie->token_offsets[node + 1];
        uint32_t end = trie->token_offsets[trie->subtree_ends[node]];
        for (uint32_t j = first; j < end; j++) {
            if (token_walk_has(walk, j)) {
                continue;
            }
            if (*count == BEYOND_MAX) {
                return false;
            }
            size_t length;
            const char *bytes = token_vocabulary_text(walk->automaton->vocabulary, trie->tokens[j], &length);
            uint32_t read = trie->depths[node];
            entries[(*count)++] =
                (struct token_trie_entry){bytes + read, (uint32_t)length - read, trie->tokens[j]};
        }
    }
    return true;
}

static bool fill_state_tokens(struct state_tokens *tokens, const struct token_walk *walk) {
    struct token_trie_entry *entries = malloc(BEYOND_MAX * sizeof *entries);
    size_t count = 0;
    bool is_done = entries != NULL;
    if (is_done && !collect_beyond(walk, entries, &count)) {
        tokens->is_walked_each_time = true;
        count = 0;
    }
    if (is_done && count > 0) {
        is_done = token_trie_init(&tokens->beyond, entries, count) == STATUS_OK;
    }
    free(entries);
    if (is_done && !tokens->is_walked_each_time) {
        tokens->within = marked_tokens(walk);
        is_done = tokens->within != NULL;
    }
    return is_done;
}

/* What the state accepts; NULL if memory is out. */
static const struct state_tokens *state_tokens_of(struct grammar_automaton *automaton, uint32_t state) {
    if (automaton->state_tokens[state] != NULL) {
        return automaton->state_tokens[state];
    }
    const struct token_vocabulary *vocabulary = automaton->vocabulary;
    struct state_tokens *tokens = calloc(1, sizeof *tokens);
    uint32_t *end_nodes = malloc((vocabulary->trie.node_count + 1) * sizeof *end_nodes);
    struct token_walk walk = {
        .automaton = automaton, .trie = &vocabulary->trie, .is_thorough = true, .end_nodes = end_nodes};
    bool is_done = tokens != NULL && end_nodes != NULL;
    if (is_done) {
        uint32_t set = automaton_set_of_places(automaton, &(struct config){state, GRAMMAR_FRAME_END}, 1);
        is_done = token_walk_run(&walk, set) && fill_state_tokens(tokens, &walk);
    }
    token_walk_deinit(&walk);
    free(end_nodes);
    if (!is_done) {
        automaton->is_out_of_memory = true;
        if (tokens != NULL) {
            token_trie_deinit(&tokens->beyond);
            free(tokens->within);
            free(tokens);
        }
        return NULL;
    }
    tokens->bytes = sizeof *tokens + token_trie_bytes(&tokens->beyond) +
                    (tokens->within != NULL ? token_set_bytes(tokens->within) : 0);
    automaton->mask_bytes += tokens->bytes;
    automaton->state_tokens[state] = tokens;
    return tokens;
}

static void add_set(uint32_t *words, const struct token_set *set) {
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->is_mask) {
            words[i] |= set->values[i];
        } else {
            words[set->values[i] / 32] |= UINT32_C(1) << set->values[i] % 32;
        }
    }
}

/* Walks over a trie and adds the tokens that may follow the set. */
static void add_walked(struct grammar_automaton *automaton, const struct token_trie *trie, uint32_t set,
                       uint32_t *words) {
    struct token_walk walk = {.automaton = automaton, .trie = trie};
    if (token_walk_run(&walk, set)) {
        token_walk_add(&walk, words);
    }
    token_walk_deinit(&walk);
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
    if (tokens->is_walked_each_time) {
        add_walked(automaton, &automaton->vocabulary->trie, automaton_set_of_places(automaton, places, count),
                   words);
        return;
    }
    add_set(words, tokens->within);
    if (tokens->beyond.node_count > 0) {
        add_walked(automaton, &tokens->beyond, automaton_set_behind(automaton, places, count), words);
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
static struct token_set *make_mask(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t word_count = automaton->vocabulary->word_count;
    uint32_t *words = calloc(word_count + 1, sizeof *words);
    if (words == NULL) {
        return NULL;
    }
    add_set_places(automaton, set, words);
    if (automaton->grammar->has_controls) {
        add_controls(automaton, set, words);
    }
    struct token_set *mask = automaton->is_out_of_memory ? NULL : token_set_of(words, word_count);
    free(words);
    return mask;
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
    struct token_set **mask = chunk_table_at(&automaton->masks, set);
    if (*mask == NULL) {
        *mask = make_mask(automaton, set);
        automaton->is_out_of_memory |= *mask == NULL;
        automaton->mask_bytes += *mask == NULL ? 0 : token_set_bytes(*mask);
    }
    return *mask;
}
