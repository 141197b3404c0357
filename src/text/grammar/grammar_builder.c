/* Collects the rules; grammar_finish.c turns them into a grammar. */
#include "text/grammar/grammar_builder.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK_BYTES = 1 << 14, RULE_OVERHEAD_STATES = 8, RULES_MAX = 60000 };

void grammar_builder_init(struct grammar_builder *builder) {
    *builder = (struct grammar_builder){0};
    arena_init(&builder->arena, ARENA_BLOCK_BYTES);
}

void grammar_builder_deinit(struct grammar_builder *builder) {
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        nfa_deinit(&builder->rules[i]->nfa);
        dfa_deinit(&builder->rules[i]->dfa);
    }
    free(builder->rules);
    arena_deinit(&builder->arena);
    *builder = (struct grammar_builder){0};
}

static bool grow_rules(struct grammar_builder *builder) {
    uint32_t capacity = builder->rule_capacity == 0 ? 32 : 2 * builder->rule_capacity;
    struct grammar_builder_rule **rules = realloc(builder->rules, capacity * sizeof *rules);
    if (rules == NULL) {
        return false;
    }
    builder->rules = rules;
    builder->rule_capacity = capacity;
    return true;
}

uint32_t grammar_builder_open_rule(struct grammar_builder *builder, const char *name) {
    if (builder->rule_count == builder->rule_capacity && !grow_rules(builder)) {
        builder->is_out_of_memory = true;
        return 0;
    }
    struct grammar_builder_rule *rule = ARENA_NEW(&builder->arena, struct grammar_builder_rule, 1);
    const char *copy = name == NULL ? NULL : arena_copy_string(&builder->arena, name, strlen(name));
    if (rule == NULL || copy == NULL) {
        builder->is_out_of_memory = true;
        return 0;
    }
    bool is_over = grammar_builder_is_over(builder);
    rule->name = copy;
    nfa_init(&rule->nfa, is_over ? 0 : GRAMMAR_STATES_MAX);
    builder->rules[builder->rule_count] = rule;
    return builder->rule_count++;
}

struct nfa *grammar_builder_nfa(struct grammar_builder *builder, uint32_t rule) {
    return &builder->rules[rule]->nfa;
}

void grammar_builder_close_rule(struct grammar_builder *builder, uint32_t rule, uint32_t end) {
    builder->rules[rule]->end = end;
    builder->rules[rule]->is_closed = true;
    builder->closed_states += builder->rules[rule]->nfa.state_count + RULE_OVERHEAD_STATES;
}

bool grammar_builder_is_over(const struct grammar_builder *builder) {
    return builder->closed_states > GRAMMAR_STATES_MAX || builder->rule_count >= RULES_MAX ||
           builder->is_out_of_memory;
}

uint32_t grammar_add_call(struct nfa *nfa, uint32_t from, uint32_t rule) {
    return nfa_add_range(nfa, from, SYMBOL_CALL + rule, SYMBOL_CALL + rule);
}

uint32_t grammar_add_control(struct nfa *nfa, uint32_t from, enum control_token token) {
    return nfa_add_range(nfa, from, SYMBOL_CONTROL + token, SYMBOL_CONTROL + token);
}
