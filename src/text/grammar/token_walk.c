/* Nearly all tokens may follow in the middle of a text: what costs is counted in nodes that are looked at. */
#include "text/grammar/token_walk.h"

#include <stdlib.h>

#include "text/grammar/automaton_internal.h"

/* Below fewer nodes it takes longer to look whether all of them can follow than to go through them. */
enum { SUBTREE_NODES_MIN = 2 };

/* Where a walk is at a depth. */
struct walk_place {
    uint32_t set;
    uint32_t characters; /* behind the blank that the path may begin with */
    uint32_t missing;    /* bytes of the last of them */
    bool is_in_run;      /* all of them are of its groups, and no more than its length */
    bool may_end;
};

/* The runs of tokens that begin with a blank and of those that do not. */
struct walk_runs {
    struct character_run run[2];
    struct character_groups known[2]; /* what they allow or refuse */
    bool is_known[2];
};

/* Whether the characters ahead of a node can follow the set: they do as most do, however many there are. */
static bool can_all_follow(const struct token_walk *walk, uint32_t node, uint32_t set) {
    struct character_groups groups = walk->trie->groups_ahead[node];
    for (uint32_t i = 0; i < walk->trie->characters_ahead[node]; i++) {
        struct uniform_step step = automaton_uniform_step(walk->automaton, set);
        if (!groups_are_in(groups, step.groups)) {
            return false;
        }
        if (step.next == set) {
            return true;
        }
        set = step.next;
    }
    return !groups_have(groups, CHARACTER_GROUP_MALFORMED);
}

static void add_tokens(struct token_walk *walk, uint32_t first, uint32_t end) {
    for (; first < end; first++) {
        int32_t token = walk->trie->tokens[first];
        walk->words[token / 32] |= UINT32_C(1) << token % 32;
    }
}

static bool is_continuation(uint8_t byte) {
    return (byte & 0xC0) == 0x80;
}

/* Whether a run says of all tokens at a node and below whether they can follow. */
static bool is_decided(const struct token_walk *walk, const struct walk_runs *runs, int which, uint32_t node,
                       const struct walk_place *before) {
    const struct token_trie *trie = walk->trie;
    struct character_groups groups = trie->groups_ahead[node];
    uint32_t characters = before->characters + trie->characters_ahead[node];
    if (!token_trie_is_lead(trie->bytes[node])) {
        groups_add(&groups, character_group(trie->bytes[node]));
        characters++;
    }
    return groups_are_in(groups, runs->known[which]) &&
           (runs->run[which].is_cut || characters <= runs->run[which].length);
}

/* Goes one byte on in a run. */
static void follow_run(const struct walk_runs *runs, int which, uint8_t byte, const struct walk_place *before,
                       struct walk_place *after) {
    bool is_within = is_continuation(byte);
    after->characters = before->characters + (is_within ? 0 : 1);
    after->missing = is_within     ? before->missing - 1
                     : byte < 0xC2 ? 0
                     : byte < 0xE0 ? 1
                     : byte < 0xF0 ? 2
                                   : 3;
    after->is_in_run = before->is_in_run && is_within == (before->missing > 0) &&
                       (is_within || groups_have(runs->known[which], character_group(byte))) &&
                       after->characters <= runs->run[which].length;
}

/* The run of the tokens whose first byte is this one; the place before them. */
static int begin_run(const struct walk_runs *runs, uint8_t byte, struct walk_place *place) {
    int which = byte == ' ' ? 1 : 0;
    place->characters = 0;
    place->missing = 0;
    place->is_in_run = runs->is_known[which];
    return which;
}

static void walk_nodes(struct token_walk *walk, const struct walk_runs *runs, struct walk_place *places) {
    const struct token_trie *trie = walk->trie;
    int which = 0;
    for (uint32_t node = 0; node < trie->node_count;) {
        uint32_t depth = trie->depths[node];
        uint8_t byte = trie->bytes[node];
        struct walk_place *before = &places[depth - 1];
        uint32_t end = trie->subtree_ends[node];
        bool is_blank = depth == 1 && byte == ' ';
        which = depth == 1 ? begin_run(runs, byte, before) : which;
        if (before->is_in_run && !is_blank && is_decided(walk, runs, which, node, before)) {
            node = end;
            continue;
        }
        uint32_t next = automaton_step(walk->automaton, before->set, byte);
        if (next == GRAMMAR_SET_DEAD) {
            node = end;
            continue;
        }
        struct walk_place *after = &places[depth];
        *after = (struct walk_place){.set = next, .is_in_run = before->is_in_run};
        if (before->is_in_run && !is_blank) {
            follow_run(runs, which, byte, before, after);
        }
        if (!after->is_in_run && end - node > SUBTREE_NODES_MIN &&
            (walk->is_thorough || next == before->set) &&
            can_all_follow(walk, node, token_trie_is_lead(byte) ? before->set : next)) {
            add_tokens(walk, trie->token_offsets[node], trie->token_offsets[end]);
            node = end;
            continue;
        }
        after->may_end =
            next == before->set ? before->may_end : grammar_automaton_may_end(walk->automaton, next);
        add_tokens(walk, trie->token_offsets[node], trie->token_offsets[node + 1]);
        if (after->may_end && walk->end_nodes != NULL && end > node + 1) {
            walk->end_nodes[walk->end_node_count++] = node;
        }
        node++;
    }
}

static void find_runs(struct token_walk *walk, uint32_t set, struct walk_runs *runs) {
    bool sees_ends = walk->end_nodes != NULL;
    uint32_t sets[] = {set, automaton_step(walk->automaton, set, ' ')};
    for (int i = 0; i < 2; i++) {
        if (automaton_is_wide(walk->automaton, sets[i])) {
            runs->is_known[i] = true;
            runs->run[i] = automaton_character_run(walk->automaton, sets[i], sees_ends);
            runs->known[i] = groups_or(runs->run[i].allowed, runs->run[i].refused);
            token_characters_select(walk->characters, i == 1, runs->run[i].allowed, runs->run[i].length,
                                    walk->words);
        }
    }
}

bool token_walk_run(struct token_walk *walk, uint32_t set) {
    struct grammar_automaton *automaton = walk->automaton;
    struct walk_runs runs = {0};
    struct walk_place *places = malloc((walk->trie->depth_max + 1) * sizeof *places);
    if (places == NULL) {
        automaton->is_out_of_memory = true;
    } else {
        places[0] = (struct walk_place){.set = set, .may_end = grammar_automaton_may_end(automaton, set)};
        if (walk->characters != NULL) {
            find_runs(walk, set, &runs);
        }
        walk_nodes(walk, &runs, places);
    }
    free(places);
    return !automaton->is_out_of_memory;
}
