/*
 * Builds a grammar rule by rule. Rules may be opened in any order and call rules that are still open.
 * As with symbol_nfa.h only grammar_builder_finish reports. One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_GRAMMAR_BUILDER_H
#define SLUICE_TEXT_GRAMMAR_GRAMMAR_BUILDER_H

#include "base/arena.h"
#include "text/grammar/grammar.h"
#include "text/grammar/symbol_dfa.h"

struct grammar_builder_rule {
    const char *name; /* in errors */
    struct nfa nfa;   /* from its state 0 to `end` */
    uint32_t end;
    struct dfa dfa; /* once finished */
    bool is_closed;
    bool is_nullable, is_productive;
};

struct grammar_builder {
    struct arena arena; /* for whoever builds, too: freed with the builder */
    struct grammar_builder_rule **rules;
    uint32_t rule_count, rule_capacity;
    uint32_t closed_states;
    bool is_out_of_memory;
};

void grammar_builder_init(struct grammar_builder *builder);
void grammar_builder_deinit(struct grammar_builder *builder);

/* A new rule; the name is copied (NULL: memory was out). Rule 0 if memory is out. */
uint32_t grammar_builder_open_rule(struct grammar_builder *builder, const char *name);

/* The rule's automaton, to append to from state 0. Valid as long as the builder. */
struct nfa *grammar_builder_nfa(struct grammar_builder *builder, uint32_t rule);

/* The rule ends in this state. Every rule that is opened must be closed. */
void grammar_builder_close_rule(struct grammar_builder *builder, uint32_t rule, uint32_t end);

/* Whether so much was built that going on makes no sense: finish will fail. */
bool grammar_builder_is_over(const struct grammar_builder *builder);

/* Appends a call. */
uint32_t grammar_add_call(struct nfa *nfa, uint32_t from, uint32_t rule);

/* Appends a control token. */
uint32_t grammar_add_control(struct nfa *nfa, uint32_t from, enum control_token token);

/*
 * The grammar of the rule `root`. UNSUPPORTED, in a sentence that starts with `what`, if a rule is left
 * recursive, the whole is too large, or no text at all is accepted. Owned: grammar_destroy.
 */
enum status grammar_builder_finish(struct grammar_builder *builder, uint32_t root, const char *what,
                                   struct grammar **out);

#endif
