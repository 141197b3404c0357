/*
 * Rules of a character or two are put in place of their calls: without a call in between, what they accept is
 * found once for the rule around them.
 */
#include "text/grammar/ebnf.h"

#include <string.h>

#include "text/grammar/ebnf_internal.h"
#include "text/grammar/grammar_builder.h"

enum { INLINE_SIZE_MAX = 40, WIDE_CLASS_SIZE = 10 };

/* About how many states the tree needs; more than INLINE_SIZE_MAX if it calls anything. */
static uint32_t size_of(const struct expression *expression) {
    uint32_t size = 1;
    for (const struct expression *child = expression->first_child; child != NULL && size <= INLINE_SIZE_MAX;
         child = child->next_sibling) {
        size += size_of(child);
    }
    switch (expression->kind) {
    case EXPRESSION_CALL:
        return INLINE_SIZE_MAX + 1;
    case EXPRESSION_CLASS:
        for (size_t i = 0; i < expression->range_count; i++) {
            size += expression->ranges[i].last >= 0x80 ? WIDE_CLASS_SIZE : 0;
        }
        return size;
    case EXPRESSION_REPEAT: {
        uint32_t count = expression->maximum == UINT32_MAX ? expression->minimum + 1 : expression->maximum;
        return count > INLINE_SIZE_MAX ? INLINE_SIZE_MAX + 1 : size * (count + 1);
    }
    default:
        return size;
    }
}

/* Puts small rules in place of calls; returns whether it did. */
static bool put_in_place(struct expression *expression, const struct ebnf_rules *rules) {
    bool is_changed = false;
    if (expression->kind == EXPRESSION_CALL) {
        struct expression *called = rules->rules[expression->rule].expression;
        if (called != expression && size_of(called) <= INLINE_SIZE_MAX) {
            expression->kind = EXPRESSION_SEQUENCE;
            expression_append(expression, called);
            return true;
        }
        return false;
    }
    for (struct expression *child = expression->first_child; child != NULL; child = child->next_sibling) {
        is_changed = put_in_place(child, rules) || is_changed;
    }
    return is_changed;
}

static bool has_anchor(const struct expression *expression) {
    bool is_found = expression->kind == EXPRESSION_AT_START || expression->kind == EXPRESSION_AT_END;
    for (const struct expression *child = expression->first_child; child != NULL && !is_found;
         child = child->next_sibling) {
        is_found = has_anchor(child);
    }
    return is_found;
}

static uint32_t find_root(const struct ebnf_rules *rules) {
    static const char *const names[] = {"root", "start"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        for (uint32_t i = 0; i < rules->count; i++) {
            if (strcmp(rules->rules[i].name, names[n]) == 0) {
                return i;
            }
        }
    }
    return UINT32_MAX;
}

static enum status build(struct grammar_builder *builder, struct ebnf_rules *rules, struct grammar **out) {
    uint32_t root = find_root(rules);
    CHECK(root != UINT32_MAX, STATUS_BAD_FORMAT,
          "the grammar has no rule \"root\" or \"start\", which stands for the whole text");
    for (int depth = 0; depth < 8; depth++) {
        bool is_changed = false;
        for (uint32_t i = 0; i < rules->count; i++) {
            is_changed = put_in_place(rules->rules[i].expression, rules) || is_changed;
        }
        if (!is_changed) {
            break;
        }
    }
    for (uint32_t i = 0; i < rules->count; i++) {
        CHECK(!has_anchor(rules->rules[i].expression), STATUS_UNSUPPORTED,
              "the grammar's rule \"%s\" has ^ or $ in a regular expression, which has no meaning there",
              rules->rules[i].name);
        grammar_builder_open_rule(builder,
                                  arena_format(&builder->arena, "the rule \"%s\"", rules->rules[i].name));
    }
    for (uint32_t i = 0; i < rules->count && !builder->is_out_of_memory; i++) {
        struct nfa *nfa = grammar_builder_nfa(builder, i);
        uint32_t end = expression_build(rules->rules[i].expression, EXPRESSION_UTF8, nfa, 0);
        grammar_builder_close_rule(builder, i, end);
    }
    return grammar_builder_finish(builder, root, "the grammar", out);
}

enum status ebnf_compile(const char *text, size_t length, struct grammar **out) {
    enum status status = STATUS_OK;
    struct grammar_builder builder;
    *out = NULL;
    grammar_builder_init(&builder);
    struct ebnf_rules *rules = ARENA_NEW(&builder.arena, struct ebnf_rules, 1);
    CHECK_MEMORY_GOTO(rules);
    TRY_GOTO(ebnf_parse(text, length, &builder.arena, rules));
    TRY_GOTO(build(&builder, rules, out));
fail:
    grammar_builder_deinit(&builder);
    return status;
}
