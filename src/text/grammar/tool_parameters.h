/* The parameters of one tool call, as a rule. */
#ifndef SLUICE_TEXT_GRAMMAR_TOOL_PARAMETERS_H
#define SLUICE_TEXT_GRAMMAR_TOOL_PARAMETERS_H

#include "text/grammar/json_grammar.h"

enum { TOOL_PARAMETERS_ANY_ORDER = 8 };

/*
 * Appends the parameters, each but the first behind a newline. `schema` NULL: any parameters. `path` names it
 * in errors.
 */
enum status tool_parameters_add(const struct json_grammar *json, const struct json *schema, const char *path,
                                struct nfa *nfa, uint32_t from, uint32_t *end);

/* Appends `<` or `</`, the tag token and the rest. */
uint32_t tool_markup_add(struct nfa *nfa, uint32_t from, const char *angle, const char *rest);

/* Appends any text of whole characters. */
uint32_t tool_text_add(struct nfa *nfa, uint32_t from);

#endif
