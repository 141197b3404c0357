/* Rules for conjunctions, and what they are made of. */
#include "text/grammar/json_schema.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/json_schema_internal.h"

enum status json_schema_create(const struct json_grammar *json, const struct json *root, const char *path,
                               struct json_schema **out) {
    *out = NULL;
    bool is_schema = json_kind(root) == JSON_KIND_OBJECT || json_kind(root) == JSON_KIND_BOOL;
    CHECK(is_schema, STATUS_BAD_FORMAT, "the schema at %s is no JSON object, true or false", path);
    struct json_schema *schema = calloc(1, sizeof *schema);
    CHECK_MEMORY(schema);
    schema->json = json;
    schema->builder = json->builder;
    schema->arena = &json->builder->arena;
    schema->root = root;
    schema->root_path = path;
    schema->made = json_new_array();
    *out = schema;
    return STATUS_OK;
}

void json_schema_destroy(struct json_schema **schema) {
    if (*schema != NULL) {
        json_free(&(*schema)->made);
        free(*schema);
        *schema = NULL;
    }
}

static struct schema_rule **bucket_of(struct json_schema *schema, const struct conjunction *conjunction) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < conjunction->count; i++) {
        hash = (hash ^ (uint64_t)(uintptr_t)conjunction->nodes[i].value) * 0x100000001B3u;
    }
    return &schema->buckets[(hash ^ hash >> 32) % SCHEMA_BUCKETS];
}

static bool is_rule_of(const struct schema_rule *rule, const struct conjunction *conjunction) {
    if (rule->count != conjunction->count || rule->is_impossible != conjunction->is_impossible ||
        rule->is_plain_text != conjunction->is_plain_text) {
        return false;
    }
    for (size_t i = 0; i < rule->count; i++) {
        const struct schema_node *a = &rule->nodes[i];
        const struct schema_node *b = &conjunction->nodes[i];
        if (a->value != b->value || a->is_any_of_split != b->is_any_of_split ||
            a->is_one_of_split != b->is_one_of_split) {
            return false;
        }
    }
    return true;
}

enum status schema_rule_of(struct json_schema *schema, const struct conjunction *conjunction,
                           uint32_t *rule) {
    struct schema_rule **bucket = bucket_of(schema, conjunction);
    for (const struct schema_rule *known = *bucket; known != NULL; known = known->next_in_bucket) {
        if (is_rule_of(known, conjunction)) {
            *rule = known->rule;
            return STATUS_OK;
        }
    }
    CHECK(!grammar_builder_is_over(schema->builder), STATUS_UNSUPPORTED,
          "the schema is too large: its alternatives and counts combine to more than can be followed; "
          "simplify it");
    struct schema_rule *made = ARENA_NEW(schema->arena, struct schema_rule, 1);
    struct schema_node *nodes = ARENA_NEW(schema->arena, struct schema_node, conjunction->count);
    CHECK_MEMORY(made != NULL ? nodes : NULL);
    memcpy(nodes, conjunction->nodes, conjunction->count * sizeof *nodes);
    const char *name = conjunction->count > 0 ? conjunction->nodes[0].path : "a value";
    *made = (struct schema_rule){.nodes = nodes,
                                 .count = conjunction->count,
                                 .is_impossible = conjunction->is_impossible,
                                 .is_plain_text = conjunction->is_plain_text,
                                 .rule = grammar_builder_open_rule(schema->builder, name),
                                 .next_in_bucket = *bucket,
                                 .next_pending = schema->pending};
    *bucket = made;
    schema->pending = made;
    *rule = made->rule;
    return STATUS_OK;
}

/* All kinds of values that the nodes allow, from state 0 to `end`. */
static enum status add_types(struct json_schema *schema, const struct conjunction *conjunction,
                             struct nfa *nfa, uint32_t end) {
    unsigned types = conjunction_types(conjunction);
    if (conjunction->count == 0) {
        nfa_add_empty(nfa, grammar_add_call(nfa, 0, schema->json->value), end);
        return STATUS_OK;
    }
    if ((types & SCHEMA_NULL) != 0) {
        nfa_add_empty(nfa, nfa_add_text(nfa, 0, "null"), end);
    }
    if ((types & SCHEMA_BOOLEAN) != 0) {
        nfa_add_empty(nfa, nfa_add_text(nfa, 0, "true"), end);
        nfa_add_empty(nfa, nfa_add_text(nfa, 0, "false"), end);
    }
    if ((types & SCHEMA_NUMBER) != 0) {
        TRY(schema_add_number(conjunction, types, nfa, end));
    }
    if ((types & SCHEMA_STRING) != 0) {
        TRY(schema_add_string(schema, conjunction, nfa, end));
    }
    if ((types & SCHEMA_ARRAY) != 0) {
        TRY(schema_add_array(schema, conjunction, nfa, end));
    }
    if ((types & SCHEMA_OBJECT) != 0) {
        TRY(schema_add_object(schema, conjunction, nfa, end));
    }
    return STATUS_OK;
}

static enum status add_values(struct json_schema *schema, const struct conjunction *conjunction,
                              struct nfa *nfa, uint32_t end) {
    const struct json *const *values = NULL;
    size_t count;
    TRY(conjunction_values(schema, conjunction, &values, &count));
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const char *text = json_text(values[i], &length);
        uint32_t behind = conjunction->is_plain_text
                              ? nfa_add_bytes(nfa, 0, text, length)
                              : json_grammar_add_constant(schema->json, nfa, 0, values[i]);
        nfa_add_empty(nfa, behind, end);
    }
    return STATUS_OK;
}

static enum status compile_rule(struct json_schema *schema, const struct schema_rule *rule) {
    struct nfa *nfa = grammar_builder_nfa(schema->builder, rule->rule);
    struct conjunction *conjunction = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(conjunction);
    memcpy(conjunction->nodes, rule->nodes, rule->count * sizeof *rule->nodes);
    conjunction->count = rule->count;
    conjunction->is_impossible = rule->is_impossible;
    conjunction->is_plain_text = rule->is_plain_text;
    uint32_t end = nfa_add_state(nfa);
    bool is_split = false;
    if (!conjunction->is_impossible) {
        TRY(schema_split(schema, conjunction, nfa, end, &is_split));
    }
    if (!conjunction->is_impossible && !is_split) {
        TRY(conjunction_has_values(conjunction) ? add_values(schema, conjunction, nfa, end)
                                                : add_types(schema, conjunction, nfa, end));
    }
    grammar_builder_close_rule(schema->builder, rule->rule, end);
    return STATUS_OK;
}

enum status schema_compile_pending(struct json_schema *schema) {
    while (schema->pending != NULL) {
        const struct schema_rule *rule = schema->pending;
        schema->pending = rule->next_pending;
        CHECK(!schema->builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
        TRY(compile_rule(schema, rule));
    }
    return STATUS_OK;
}

static enum status root_conjunction(struct json_schema *schema, struct conjunction **out) {
    *out = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(*out);
    return conjunction_add(schema, *out, schema->root, schema->root_path);
}

enum status json_schema_compile_root(struct json_schema *schema, uint32_t *rule) {
    struct conjunction *conjunction;
    TRY(root_conjunction(schema, &conjunction));
    TRY(schema_rule_of(schema, conjunction, rule));
    return schema_compile_pending(schema);
}

/* Adds a node that says the type, as JSON, to a copy of the conjunction. */
static enum status restrict_type(struct json_schema *schema, const struct conjunction *conjunction,
                                 const char *node_text, struct conjunction **out) {
    struct json *node;
    *out = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(*out);
    **out = *conjunction;
    TRY(json_parse(node_text, strlen(node_text), "a type", &node));
    CHECK(json_append(schema->made, node), STATUS_OUT_OF_MEMORY, "out of memory");
    return conjunction_add(schema, *out, node, schema->root_path);
}

/* The rules of a parameter's strings and of its other values. */
static enum status parameter_rules(struct json_schema *schema, const struct conjunction *conjunction,
                                   uint32_t *text_rule, uint32_t *value_rule) {
    struct conjunction *strings;
    struct conjunction *others;
    TRY(restrict_type(schema, conjunction, "{\"type\": \"string\"}", &strings));
    TRY(restrict_type(schema, conjunction,
                      "{\"type\": [\"null\", \"boolean\", \"number\", \"array\", \"object\"]}", &others));
    strings->is_plain_text = true;
    TRY(schema_rule_of(schema, strings, text_rule));
    return schema_rule_of(schema, others, value_rule);
}

static enum status read_parameters(struct json_schema *schema, const struct schema_object *object) {
    schema->parameters = ARENA_NEW(schema->arena, struct json_schema_parameter, object->count);
    CHECK_MEMORY(schema->parameters);
    for (size_t i = 0; i < object->count; i++) {
        const struct schema_property *property = &object->properties[i];
        struct json_schema_parameter *out = &schema->parameters[schema->parameter_count++];
        *out = (struct json_schema_parameter){.name = property->name,
                                              .name_length = property->name_length,
                                              .is_required = property->is_required};
        TRY(parameter_rules(schema, property->conjunction, &out->text_rule, &out->value_rule));
    }
    return STATUS_OK;
}

enum status json_schema_compile_parameters(struct json_schema *schema,
                                           const struct json_schema_parameter **parameters, size_t *count,
                                           struct json_schema_others *others) {
    struct conjunction *conjunction;
    struct schema_object object;
    TRY(root_conjunction(schema, &conjunction));
    for (size_t i = 0; i < conjunction->count; i++) {
        bool is_split = json_get(conjunction->nodes[i].value, "anyOf") != NULL ||
                        json_get(conjunction->nodes[i].value, "oneOf") != NULL;
        CHECK(!is_split, STATUS_UNSUPPORTED,
              "the schema at %s has alternatives for all parameters together, which is not supported; give "
              "each "
              "parameter its own",
              conjunction->nodes[i].path);
    }
    CHECK((conjunction_types(conjunction) & SCHEMA_OBJECT) != 0, STATUS_UNSUPPORTED,
          "the schema at %s is not of an object, as the parameters of a tool are", schema->root_path);
    TRY(schema_object_read(schema, conjunction, &object));
    TRY(read_parameters(schema, &object));
    *parameters = schema->parameters;
    *count = schema->parameter_count;
    others->is_possible = object.has_others;
    others->is_declared = object.others->count > 0;
    TRY(parameter_rules(schema, object.others, &others->text_rule, &others->value_rule));
    return schema_compile_pending(schema);
}

enum status json_schema_compile(const struct json *root, struct grammar **out) {
    enum status status = STATUS_OK;
    struct grammar_builder builder;
    struct json_grammar json;
    struct json_schema *schema = NULL;
    uint32_t rule;
    *out = NULL;
    grammar_builder_init(&builder);
    json_grammar_init(&json, &builder);
    TRY_GOTO(json_schema_create(&json, root, "$", &schema));
    TRY_GOTO(json_schema_compile_root(schema, &rule));
    TRY_GOTO(grammar_builder_finish(&builder, rule, "the schema", out));
fail:
    json_schema_destroy(&schema);
    grammar_builder_deinit(&builder);
    return status;
}
