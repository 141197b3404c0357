/*
 * What patterns and grammars are read into: a tree of classes of characters, sequences, choices, repetitions.
 *
 * Nodes live in the arena of whoever parses. A tree is built into an automaton once per place of use, so that
 * one node may be the child of several. The depth is bounded by the parsers. One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_EXPRESSION_H
#define SLUICE_TEXT_GRAMMAR_EXPRESSION_H

#include "base/arena.h"
#include "text/grammar/symbol_nfa.h"

enum expression_kind {
    EXPRESSION_CLASS,    /* one character of `ranges` */
    EXPRESSION_SEQUENCE, /* the children, one after the other; none: the empty text */
    EXPRESSION_CHOICE,   /* one of the children */
    EXPRESSION_REPEAT,   /* the first child, minimum to maximum times */
    EXPRESSION_AT_START, /* nothing, at the text's start only */
    EXPRESSION_AT_END,
    EXPRESSION_CALL, /* the rule `rule` */
};

enum { EXPRESSION_DEPTH_MAX = 200 };

struct code_point_range {
    uint32_t first, last;
};

struct expression {
    enum expression_kind kind;
    struct expression *first_child, *last_child;
    struct expression *next_sibling;
    struct code_point_range *ranges; /* sorted, disjoint, no surrogates */
    size_t range_count;
    uint32_t minimum, maximum; /* maximum UINT32_MAX: any number */
    uint32_t rule;
};

/* What symbols an automaton's characters are. */
enum expression_alphabet { EXPRESSION_CODE_POINTS, EXPRESSION_UTF8 };

/* NULL if memory is out. */
struct expression *expression_new(struct arena *arena, enum expression_kind kind);

/* The child must have no siblings yet. */
void expression_append(struct expression *parent, struct expression *child);

/* A class of one range; NULL if memory is out. */
struct expression *expression_new_range(struct arena *arena, uint32_t first, uint32_t last);

/* A class: the ranges sorted, joined, negated if asked for, without surrogates. NULL if memory is out. */
struct expression *expression_new_class(struct arena *arena, const struct code_point_range *ranges,
                                        size_t range_count, bool is_negated);

/* Appends what the tree stands for (symbol_nfa.h). */
uint32_t expression_build(const struct expression *expression, enum expression_alphabet alphabet,
                          struct nfa *nfa, uint32_t from);

#endif
