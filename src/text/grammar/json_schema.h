/*
 * JSON Schema (draft 2020-12) as a grammar. docs/structured-output.md lists what is understood.
 *
 * What cannot be expressed is refused with the JSON path and the keyword; nothing is left out silently but
 * annotations. Whatever the grammar accepts is valid; of what is valid, objects are accepted with their
 * declared properties in the order of the schema, others behind them, numbers in the plain form, and strings
 * with a pattern, format or constant in their shortest spelling. One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_JSON_SCHEMA_H
#define SLUICE_TEXT_GRAMMAR_JSON_SCHEMA_H

#include "lib/json.h"
#include "text/grammar/grammar_builder.h"
#include "text/grammar/json_grammar.h"

struct json_schema;

/*
 * Starts to read a schema; `root` is what "#" in references means, `path` its name in errors ("$"). Builder,
 * rules and document are borrowed. Owned: json_schema_destroy.
 */
enum status json_schema_create(const struct json_grammar *json, const struct json *root, const char *path,
                               struct json_schema **out);
void json_schema_destroy(struct json_schema **schema);

/* The rule of the values that the root accepts. */
enum status json_schema_compile_root(struct json_schema *schema, uint32_t *rule);

/*
 * A parameter of a tool: a declared property of the root. Its strings stand as plain text, everything else as
 * JSON; a rule that no value of the parameter fits accepts nothing.
 */
struct json_schema_parameter {
    const char *name; /* as long as the schema */
    size_t name_length;
    bool is_required;
    uint32_t text_rule, value_rule;
};

/* The undeclared ones. */
struct json_schema_others {
    bool is_possible;
    bool is_declared; /* the schema says something about them */
    uint32_t text_rule, value_rule;
};

/* The root as the parameters of a tool. */
enum status json_schema_compile_parameters(struct json_schema *schema,
                                           const struct json_schema_parameter **parameters, size_t *count,
                                           struct json_schema_others *others);

/* A whole schema as a grammar. Owned: grammar_destroy. */
enum status json_schema_compile(const struct json *root, struct grammar **out);

#endif
