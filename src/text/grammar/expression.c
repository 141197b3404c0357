/* Building recurses to the depth that the parsers allow. */
#include "text/grammar/expression.h"

#include <stdlib.h>

#include "text/grammar/utf8_symbols.h"

struct expression *expression_new(struct arena *arena, enum expression_kind kind) {
    struct expression *expression = ARENA_NEW(arena, struct expression, 1);
    if (expression != NULL) {
        expression->kind = kind;
    }
    return expression;
}

void expression_append(struct expression *parent, struct expression *child) {
    if (parent->first_child == NULL) {
        parent->first_child = child;
    } else {
        parent->last_child->next_sibling = child;
    }
    parent->last_child = child;
}

struct expression *expression_new_range(struct arena *arena, uint32_t first, uint32_t last) {
    return expression_new_class(arena, &(struct code_point_range){first, last}, 1, false);
}

static int compare_ranges(const void *a, const void *b) {
    const struct code_point_range *left = a;
    const struct code_point_range *right = b;
    return (left->first > right->first) - (left->first < right->first);
}

/* Appends a range without its surrogates. */
static size_t append_range(struct code_point_range *ranges, size_t count, uint32_t first, uint32_t last) {
    const uint32_t surrogates_first = 0xD800;
    const uint32_t surrogates_last = 0xDFFF;
    if (first < surrogates_first) {
        ranges[count++] =
            (struct code_point_range){first, last < surrogates_first ? last : surrogates_first - 1};
    }
    if (last > surrogates_last) {
        ranges[count++] =
            (struct code_point_range){first > surrogates_last ? first : surrogates_last + 1, last};
    }
    return count;
}

struct expression *expression_new_class(struct arena *arena, const struct code_point_range *ranges,
                                        size_t range_count, bool is_negated) {
    struct expression *expression = expression_new(arena, EXPRESSION_CLASS);
    struct code_point_range *sorted = ARENA_NEW(arena, struct code_point_range, range_count);
    struct code_point_range *out = ARENA_NEW(arena, struct code_point_range, 2 * (range_count + 1));
    if (expression == NULL || sorted == NULL || out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < range_count; i++) {
        sorted[i] = ranges[i];
    }
    qsort(sorted, range_count, sizeof *sorted, compare_ranges);
    size_t count = 0;
    uint32_t gap_first = 0;
    for (size_t i = 0; i < range_count;) {
        uint32_t first = sorted[i].first;
        uint32_t last = sorted[i].last;
        for (i++; i < range_count && sorted[i].first <= last + 1; i++) {
            last = sorted[i].last > last ? sorted[i].last : last;
        }
        if (!is_negated) {
            count = append_range(out, count, first, last);
        } else if (first > gap_first) {
            count = append_range(out, count, gap_first, first - 1);
        }
        gap_first = last + 1;
    }
    if (is_negated && gap_first < SYMBOL_CODE_POINTS) {
        count = append_range(out, count, gap_first, SYMBOL_CODE_POINTS - 1);
    }
    expression->ranges = out;
    expression->range_count = count;
    return expression;
}

static uint32_t build_class(const struct expression *expression, enum expression_alphabet alphabet,
                            struct nfa *nfa, uint32_t from) {
    uint32_t target = nfa_add_state(nfa);
    for (size_t i = 0; i < expression->range_count; i++) {
        const struct code_point_range *range = &expression->ranges[i];
        if (alphabet == EXPRESSION_CODE_POINTS) {
            nfa_add_edge(nfa, from, range->first, range->last, target);
        } else {
            utf8_symbols_add(nfa, from, range->first, range->last, target);
        }
    }
    return target;
}

struct repeated {
    const struct expression *expression;
    enum expression_alphabet alphabet;
};

static uint32_t build_repeated(struct nfa *nfa, uint32_t from, const void *context) {
    const struct repeated *repeated = context;
    return expression_build(repeated->expression, repeated->alphabet, nfa, from);
}

uint32_t expression_build(const struct expression *expression, enum expression_alphabet alphabet,
                          struct nfa *nfa, uint32_t from) {
    uint32_t target = from;
    switch (expression->kind) {
    case EXPRESSION_CLASS:
        return build_class(expression, alphabet, nfa, from);
    case EXPRESSION_SEQUENCE:
        for (const struct expression *child = expression->first_child; child != NULL;
             child = child->next_sibling) {
            target = expression_build(child, alphabet, nfa, target);
        }
        return target;
    case EXPRESSION_CHOICE:
        target = nfa_add_state(nfa);
        for (const struct expression *child = expression->first_child; child != NULL;
             child = child->next_sibling) {
            nfa_add_empty(nfa, expression_build(child, alphabet, nfa, from), target);
        }
        return target;
    case EXPRESSION_REPEAT:
        return nfa_add_repeat(nfa, from, build_repeated,
                              &(struct repeated){expression->first_child, alphabet}, expression->minimum,
                              expression->maximum);
    case EXPRESSION_AT_START:
    case EXPRESSION_AT_END:
        target = nfa_add_state(nfa);
        uint32_t symbol = expression->kind == EXPRESSION_AT_START ? NFA_AT_START : NFA_AT_END;
        nfa_add_edge(nfa, from, symbol, symbol, target);
        return target;
    case EXPRESSION_CALL:
        return nfa_add_range(nfa, from, SYMBOL_CALL + expression->rule, SYMBOL_CALL + expression->rule);
    }
    return target;
}
