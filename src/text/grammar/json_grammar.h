/*
 * JSON as a grammar: the parts that schemas are put together from.
 *
 * Blanks are limited, so that no model can go on with blanks for ever: behind `{`, `[`, `,` and `:` and in
 * front of `}` and `]` stands nothing, one space, or a newline and up to 64 spaces or tabs; nothing else, and
 * nothing around the whole. That covers the compact and the spaced form and any usual indentation.
 *
 * Strings are UTF-8 and hold every escape of JSON, but no half of a surrogate pair. Strings with a given text
 * (keys, constants, patterns) use only the shortest escapes, so that each text has one spelling.
 */
#ifndef SLUICE_TEXT_GRAMMAR_JSON_GRAMMAR_H
#define SLUICE_TEXT_GRAMMAR_JSON_GRAMMAR_H

#include "lib/json.h"
#include "text/grammar/grammar_builder.h"

/* Shared rules. */
struct json_grammar {
    struct grammar_builder *builder;
    uint32_t blank, string, value, object, array;
};

/* Adds the rules. */
void json_grammar_init(struct json_grammar *json, struct grammar_builder *builder);

/* Each appends and returns the state behind it. */
uint32_t json_grammar_add_blank(const struct json_grammar *json, struct nfa *nfa, uint32_t from);

/* Strings of `minimum` to `maximum` characters, any spelling (UINT32_MAX: no limit). */
uint32_t json_grammar_add_string(struct nfa *nfa, uint32_t from, uint32_t minimum, uint32_t maximum);

/* The strings whose text the automaton over code points accepts. */
uint32_t json_grammar_add_text(struct nfa *nfa, uint32_t from, const struct dfa *dfa);

/* One string, with its quotes. */
uint32_t json_grammar_add_key(struct nfa *nfa, uint32_t from, const char *text, size_t length);

/* One value; objects with their members in the order given. */
uint32_t json_grammar_add_constant(const struct json_grammar *json, struct nfa *nfa, uint32_t from,
                                   const struct json *value);

/* Any object: the grammar of response_format json_object. Owned: grammar_destroy. */
enum status json_grammar_compile_object(struct grammar **out);

#endif
