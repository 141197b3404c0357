/*
 * Masks. What a state accepts is found by one walk over all tokens that starts there and sees no further than
 * the end of the state's rule. Tokens that go on beyond it are kept by the bytes that are left over, so that
 * one check decides for all tokens that end alike. If they are too many, as for rules of a character or two,
 * the tokens are walked for each set instead.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/automaton_internal.h"

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
    for (uint32_t i = 0; i < automaton->mask_capacity; i++) {
        free(automaton->masks[i]);
    }
    free(automaton->masks);
    automaton->masks = NULL;
    automaton->mask_capacity = 0;
    automaton->mask_bytes = 0;
}

/* A walk over a trie: marks the tokens whose bytes can follow the set. */
struct walk {
    struct grammar_automaton *automaton;
    const struct token_trie *trie;
    uint32_t *words;     /* mask, added to */
    uint32_t *end_nodes; /* nodes at which the text may end and below which more follows; NULL: not wanted */
    uint32_t end_node_count;
    uint32_t looping_set; /* the last one whose groups were looked for, and these */
    uint64_t looping_groups;
};

/* Below fewer nodes it takes longer to look whether all of them stay than to go through them. */
enum { SUBTREE_NODES_MIN = 8 };

/* Groups of bytes (token_trie.h) behind which the set is the same. */
static uint64_t find_looping_groups(struct grammar_automaton *automaton, uint32_t set) {
    uint64_t leaving = 0;
    for (uint32_t byte = 0; byte < GRAMMAR_BYTES; byte++) {
        if (grammar_automaton_step(automaton, set, byte) != set) {
            leaving |= token_trie_group((uint8_t)byte);
        }
    }
    return ~leaving;
}

/* Whether all that stands below a node, which itself led from the set to the same set, does so too. */
static bool stays_below(struct walk *walk, uint32_t node, uint32_t set) {
    if (walk->looping_set != set) {
        walk->looping_set = set;
        walk->looping_groups = find_looping_groups(walk->automaton, set);
    }
    return (walk->trie->groups_below[node] & ~walk->looping_groups) == 0;
}

static void add_tokens(const struct walk *walk, uint32_t first, uint32_t end) {
    const int32_t *tokens = walk->trie->tokens;
    for (uint32_t i = first; i < end; i++) {
        walk->words[tokens[i] / 32] |= UINT32_C(1) << tokens[i] % 32;
    }
}

/* Where a walk is at a depth. */
struct walk_place {
    uint32_t set;
    bool may_end;
};

static void walk_tokens(struct walk *walk, uint32_t set) {
    const struct token_trie *trie = walk->trie;
    struct walk_place *places = malloc((trie->depth_max + 1) * sizeof *places);
    if (places == NULL) {
        walk->automaton->is_out_of_memory = true;
        return;
    }
    places[0] = (struct walk_place){set, grammar_automaton_may_end(walk->automaton, set)};
    for (uint32_t node = 0; node < trie->node_count;) {
        const struct walk_place *before = &places[trie->depths[node] - 1];
        uint32_t end = trie->subtree_ends[node];
        uint32_t next = automaton_step(walk->automaton, before->set, trie->bytes[node]);
        if (next == GRAMMAR_SET_DEAD) {
            node = end;
            continue;
        }
        bool is_same = next == before->set;
        if (is_same && end - node > SUBTREE_NODES_MIN && stays_below(walk, node, next)) {
            add_tokens(walk, trie->token_offsets[node], trie->token_offsets[end]);
            node = end;
            continue;
        }
        bool may_end = is_same ? before->may_end : grammar_automaton_may_end(walk->automaton, next);
        places[trie->depths[node]] = (struct walk_place){next, may_end};
        add_tokens(walk, trie->token_offsets[node], trie->token_offsets[node + 1]);
        if (may_end && walk->end_nodes != NULL && end > node + 1) {
            walk->end_nodes[walk->end_node_count++] = node;
        }
        node++;
    }
    free(places);
}

static bool has_token(const uint32_t *words, int32_t token) {
    return (words[token / 32] >> token % 32 & 1) != 0;
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

static size_t token_set_bytes(const struct token_set *set) {
    return sizeof *set + set->count * sizeof *set->values;
}

/* Collects what is left of the tokens below the end nodes. False: too many, or memory is out. */
static bool collect_beyond(const struct walk *walk, struct token_trie_entry *entries, size_t *count) {
    const struct token_trie *trie = walk->trie;
    for (uint32_t i = 0; i < walk->end_node_count; i++) {
        uint32_t node = walk->end_nodes[i];
        uint32_t first = trie->token_offsets[node + 1];
        uint32_t end = trie->token_offsets[trie->subtree_ends[node]];
        for (uint32_t j = first; j < end; j++) {
            if (has_token(walk->words, trie->tokens[j])) {
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

static bool fill_state_tokens(struct state_tokens *tokens, const struct walk *walk) {
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
        tokens->within = token_set_of(walk->words, walk->automaton->vocabulary->word_count);
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
    uint32_t *words = calloc(vocabulary->word_count + 1, sizeof *words);
    uint32_t *end_nodes = malloc((vocabulary->trie.node_count + 1) * sizeof *end_nodes);
    bool is_done = tokens != NULL && words != NULL && end_nodes != NULL;
    if (is_done) {
        struct walk walk = {
            .automaton = automaton, .trie = &vocabulary->trie, .words = words, .end_nodes = end_nodes};
        walk_tokens(&walk, automaton_set_of_places(automaton, &(struct config){state, GRAMMAR_FRAME_END}, 1));
        is_done = fill_state_tokens(tokens, &walk) && !automaton->is_out_of_memory;
    }
    free(words);
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

/*
 * Adds the tokens that may follow at places of one state, which differ in what comes behind their rules: one
 * walk for all of them.
 */
static void add_places(struct grammar_automaton *automaton, const struct config *places, uint32_t count,
                       uint32_t *words) {
    const struct state_tokens *tokens = state_tokens_of(automaton, places[0].state);
    struct walk walk = {.automaton = automaton, .words = words};
    if (tokens == NULL) {
        return;
    }
    if (tokens->is_walked_each_time) {
        walk.trie = &automaton->vocabulary->trie;
        walk_tokens(&walk, automaton_set_of_places(automaton, places, count));
        return;
    }
    add_set(words, tokens->within);
    if (tokens->beyond.node_count > 0) {
        walk.trie = &tokens->beyond;
        walk_tokens(&walk, automaton_set_behind(automaton, places, count));
    }
}

/* The same for all places of a set, which are sorted by their states. False: memory is out. */
static bool add_set_places(struct grammar_automaton *automaton, uint32_t set, uint32_t *words) {
    struct config_span span = config_lists_get(&automaton->sets, set);
    /* Lists move while others are added. */
    struct config *places = malloc((span.count + 1) * sizeof *places);
    if (places == NULL) {
        return false;
    }
    memcpy(places, span.items, span.count * sizeof *places);
    for (uint32_t first = 0, end = 0; first < span.count; first = end) {
        while (end < span.count && places[end].state == places[first].state) {
            end++;
        }
        if (places[first].state != GRAMMAR_END) {
            add_places(automaton, places + first, end - first, words);
        }
    }
    free(places);
    return true;
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

static bool reserve_mask(struct grammar_automaton *automaton, uint32_t set) {
    if (set < automaton->mask_capacity) {
        return true;
    }
    uint32_t capacity = 2 * (set + 64);
    struct token_set **masks = realloc(automaton->masks, capacity * sizeof *masks);
    if (masks == NULL) {
        return false;
    }
    for (uint32_t i = automaton->mask_capacity; i < capacity; i++) {
        masks[i] = NULL;
    }
    automaton->masks = masks;
    automaton->mask_capacity = capacity;
    return true;
}

/* The mask, worked out; NULL if memory is out. */
static struct token_set *make_mask(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t word_count = automaton->vocabulary->word_count;
    uint32_t *words = calloc(word_count + 1, sizeof *words);
    if (words == NULL) {
        return NULL;
    }
    automaton->is_out_of_memory |= !add_set_places(automaton, set, words);
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
    if (!reserve_mask(automaton, set)) {
        automaton->is_out_of_memory = true;
        return NULL;
    }
    if (automaton->masks[set] == NULL) {
        struct token_set *mask = make_mask(automaton, set);
        if (mask == NULL) {
            automaton->is_out_of_memory = true;
            return NULL;
        }
        automaton->mask_bytes += token_set_bytes(mask);
        automaton->masks[set] = mask;
    }
    return automaton->masks[set];
}
