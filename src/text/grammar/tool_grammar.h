/*
 * Tool calls as a grammar: free text, calls in the markup of the prompt format (spec deepseek-v4 8.4), or
 * both.
 *
 * The description is a JSON object as in a chat request:
 *
 *   {"tools": [{"type": "function", "function": {"name", "parameters", "strict"}}, ...],
 *    "tool_choice": "auto" | "required" | "none" | {"type": "function", "function": {"name"}},
 *    "parallel_tool_calls": true | false,
 *    "schema_name": what the client calls a tool's schema, for errors; "function.parameters" without it}
 *
 * auto: text, then perhaps one block of calls, which ends the answer. required, or a function: the block at
 * once. Parameters meet their schemas: strings stand as they are, other values as JSON. Up to 8 declared
 * parameters come in any order, more in the order of the schema. Undeclared ones are accepted if
 * additionalProperties says so, or if none are declared. "strict": false leaves out the schema: any
 * parameters with any values.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOOL_GRAMMAR_H
#define SLUICE_TEXT_GRAMMAR_TOOL_GRAMMAR_H

#include "lib/json.h"
#include "text/grammar/grammar.h"

/* Errors name the tool and the path of what is wrong. Owned: grammar_destroy. */
enum status tool_grammar_compile(const struct json *description, struct grammar **out);

#endif
