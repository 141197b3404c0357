/*
 * Builds a deterministic automaton whose states stand for lists of numbers: sets of states, or pairs.
 *
 * States are found by their list and made when they are first asked for; then each is opened, in the order of
 * its number, and its edges are added in the order of their symbols. As with symbol_nfa.h, building never
 * reports: dfa_builder_finish does. One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_DFA_BUILDER_H
#define SLUICE_TEXT_GRAMMAR_DFA_BUILDER_H

#include "text/grammar/symbol_dfa.h"

struct dfa_builder {
    uint32_t state_limit;
    uint32_t state_count;    /* found */
    uint32_t opened_count;   /* opened */
    uint32_t state_capacity; /* of the four arrays */
    uint32_t *member_offsets;
    uint32_t *member_counts;
    uint32_t *edge_offsets;
    bool *is_accepting;
    uint32_t *members; /* of all states */
    uint32_t member_total, member_capacity;
    struct dfa_edge *edges;
    uint32_t edge_count, edge_capacity;
    uint32_t *slots; /* open addressing: state or UINT32_MAX */
    uint32_t slot_count;
    bool is_out_of_memory, is_over_limit;
};

void dfa_builder_init(struct dfa_builder *builder, uint32_t state_limit);
void dfa_builder_deinit(struct dfa_builder *builder);

/* Whether there is a point in going on. */
bool dfa_builder_is_good(const struct dfa_builder *builder);

/* The state of these members, which are sorted if they are a set. */
uint32_t dfa_builder_find_state(struct dfa_builder *builder, const uint32_t *members, uint32_t count);

/* Valid until a state is found. */
const uint32_t *dfa_builder_members(const struct dfa_builder *builder, uint32_t state, uint32_t *count);

/* Opens the next state: edges that are added are its. */
void dfa_builder_open_state(struct dfa_builder *builder, bool is_accepting);

/* Joins the edge with the last one of the same state if it goes on where that ends. */
void dfa_builder_add_edge(struct dfa_builder *builder, uint32_t first, uint32_t last, uint32_t target);

/* Hands the automaton over. UNSUPPORTED, in a sentence that starts with `what`, beyond the limit. */
enum status dfa_builder_finish(struct dfa_builder *builder, const char *what, struct dfa *out);

#endif
