/*
 * A parameter is a rule: its tag, then its value as text or as JSON. In any order the states are the sets of
 * parameters that were written, in schema order they are the number of those that were decided on.
 */
#include "text/grammar/tool_parameters.h"

#include <string.h>

#include "text/grammar/json_schema.h"
#include "text/grammar/pattern.h"
#include "text/grammar/utf8_symbols.h"

uint32_t tool_markup_add(struct nfa *nfa, uint32_t from, const char *angle, const char *rest) {
    from = grammar_add_control(nfa, nfa_add_text(nfa, from, angle), CONTROL_TOKEN_DSML);
    return nfa_add_text(nfa, from, rest);
}

uint32_t tool_text_add(struct nfa *nfa, uint32_t from) {
    uint32_t loop = nfa_add_state(nfa);
    nfa_add_empty(nfa, from, loop);
    utf8_symbols_add(nfa, loop, 0, SYMBOL_CODE_POINTS - 1, loop);
    return loop;
}

static uint32_t add_closing(struct nfa *nfa, uint32_t from) {
    return tool_markup_add(nfa, from, "</", "parameter>");
}

/* What may stand in place of a parameter. */
struct parameters {
    const struct json_grammar *json;
    const struct json_schema_parameter *declared;
    size_t declared_count;
    bool has_others;
    uint32_t other_text, other_value; /* rules of the others' values */
    uint32_t *rules;                  /* of each declared parameter */
    uint32_t other_rule;
};

/* Behind `... name="KEY"`: the kind, the value and the closing tag. */
static uint32_t add_value(struct nfa *nfa, uint32_t from, uint32_t text_rule, uint32_t value_rule) {
    uint32_t end = nfa_add_state(nfa);
    uint32_t text = grammar_add_call(nfa, nfa_add_text(nfa, from, " string=\"true\">"), text_rule);
    uint32_t value = grammar_add_call(nfa, nfa_add_text(nfa, from, " string=\"false\">"), value_rule);
    nfa_add_empty(nfa, add_closing(nfa, text), end);
    nfa_add_empty(nfa, add_closing(nfa, value), end);
    return end;
}

static enum status check_name(const char *name, size_t length, const char *path) {
    CHECK(length > 0 && memchr(name, '"', length) == NULL && memchr(name, '\n', length) == NULL &&
              memchr(name, '<', length) == NULL,
          STATUS_UNSUPPORTED,
          "a parameter at %s has a name that is empty or has quotes, newlines or angle brackets, which the "
          "markup of "
          "tool calls cannot hold; rename it",
          path);
    return STATUS_OK;
}

static uint32_t open_rule(const struct parameters *parameters, const char *name, struct nfa **nfa) {
    uint32_t rule = grammar_builder_open_rule(parameters->json->builder, name);
    *nfa = grammar_builder_nfa(parameters->json->builder, rule);
    return rule;
}

static enum status add_declared_rules(struct parameters *parameters, const char *path) {
    parameters->rules = ARENA_NEW(&parameters->json->builder->arena, uint32_t, parameters->declared_count);
    CHECK_MEMORY(parameters->rules);
    for (size_t i = 0; i < parameters->declared_count; i++) {
        const struct json_schema_parameter *declared = &parameters->declared[i];
        struct nfa *nfa;
        TRY(check_name(declared->name, declared->name_length, path));
        parameters->rules[i] = open_rule(parameters, declared->name, &nfa);
        uint32_t at = tool_markup_add(nfa, 0, "<", "parameter name=\"");
        at = nfa_add_text(nfa, nfa_add_bytes(nfa, at, declared->name, declared->name_length), "\"");
        at = add_value(nfa, at, declared->text_rule, declared->value_rule);
        grammar_builder_close_rule(parameters->json->builder, parameters->rules[i], at);
    }
    return STATUS_OK;
}

/* Names that no declared parameter has. Owned: dfa_deinit. */
static enum status other_names(const struct parameters *parameters, struct dfa *out) {
    static const char pattern[] = "[A-Za-z0-9_.$-]{1,64}";
    enum status status = STATUS_OK;
    struct nfa nfa;
    struct dfa any = {0};
    nfa_init(&nfa, GRAMMAR_STATES_MAX);
    uint32_t end = nfa_add_state(&nfa);
    for (size_t i = 0; i < parameters->declared_count; i++) {
        const struct json_schema_parameter *parameter = &parameters->declared[i];
        /* Names outside ASCII are none of the others: bytes stand for their characters here. */
        nfa_add_empty(&nfa, nfa_add_bytes(&nfa, 0, parameter->name, parameter->name_length), end);
    }
    TRY_GOTO(pattern_compile(pattern, sizeof pattern - 1, PATTERN_WHOLE, "a name", &any));
    TRY_GOTO(dfa_exclude(&any, &nfa, end, GRAMMAR_STATES_MAX, "the tool's schema", out));
fail:
    nfa_deinit(&nfa);
    dfa_deinit(&any);
    return status;
}

static enum status add_other_rule(struct parameters *parameters) {
    struct dfa names;
    struct nfa *nfa;
    if (!parameters->has_others) {
        return STATUS_OK;
    }
    TRY(other_names(parameters, &names));
    parameters->other_rule = open_rule(parameters, "another parameter", &nfa);
    uint32_t at = tool_markup_add(nfa, 0, "<", "parameter name=\"");
    at = nfa_add_text(nfa, utf8_symbols_add_dfa(nfa, at, &names, utf8_symbols_add), "\"");
    at = add_value(nfa, at, parameters->other_text, parameters->other_value);
    grammar_builder_close_rule(parameters->json->builder, parameters->other_rule, at);
    dfa_deinit(&names);
    return STATUS_OK;
}

/* A state between parameters, and the one from which the next begins. */
struct between {
    uint32_t at, next;
};

static struct between add_between(struct nfa *nfa, bool is_first) {
    struct between between = {nfa_add_state(nfa), nfa_add_state(nfa)};
    if (is_first) {
        nfa_add_empty(nfa, between.at, between.next);
    } else {
        nfa_add_edge(nfa, between.at, '\n', '\n', between.next);
    }
    return between;
}

static void add_call_between(struct nfa *nfa, struct between from, uint32_t rule, struct between to) {
    nfa_add_empty(nfa, grammar_add_call(nfa, from.next, rule), to.at);
}

/* Set number 0 is two states: nothing was written, or others only were. */
static void add_in_any_order(const struct parameters *parameters, struct nfa *nfa, uint32_t from,
                             uint32_t end) {
    enum { SETS_MAX = 1 << TOOL_PARAMETERS_ANY_ORDER };
    struct between sets[SETS_MAX];
    size_t required = 0;
    for (size_t i = 0; i < parameters->declared_count; i++) {
        required |= (size_t)parameters->declared[i].is_required << i;
    }
    struct between first = add_between(nfa, true);
    nfa_add_empty(nfa, from, first.at);
    for (size_t set = 0; set < (size_t)1 << parameters->declared_count; set++) {
        sets[set] = add_between(nfa, false);
    }
    for (size_t set = 0; set < (size_t)1 << parameters->declared_count; set++) {
        for (size_t i = 0; i < parameters->declared_count; i++) {
            struct between to = sets[set | (size_t)1 << i];
            if ((set >> i & 1) == 0) {
                add_call_between(nfa, sets[set], parameters->rules[i], to);
            }
            if (set == 0) {
                add_call_between(nfa, first, parameters->rules[i], to);
            }
        }
        if (parameters->has_others) {
            add_call_between(nfa, sets[set], parameters->other_rule, sets[set]);
        }
        if ((set & required) == required) {
            nfa_add_empty(nfa, sets[set].at, end);
        }
    }
    if (parameters->has_others) {
        add_call_between(nfa, first, parameters->other_rule, sets[0]);
    }
    if (required == 0) {
        nfa_add_empty(nfa, first.at, end);
    }
}

static void add_in_order(const struct parameters *parameters, struct nfa *nfa, uint32_t from, uint32_t end) {
    struct between first = add_between(nfa, true);
    struct between written = add_between(nfa, false);
    nfa_add_empty(nfa, from, first.at);
    for (size_t i = 0; i < parameters->declared_count; i++) {
        struct between next_first = add_between(nfa, true);
        struct between next_written = add_between(nfa, false);
        add_call_between(nfa, first, parameters->rules[i], next_written);
        add_call_between(nfa, written, parameters->rules[i], next_written);
        if (!parameters->declared[i].is_required) {
            nfa_add_empty(nfa, first.at, next_first.at);
            nfa_add_empty(nfa, written.at, next_written.at);
        }
        first = next_first;
        written = next_written;
    }
    if (parameters->has_others) {
        add_call_between(nfa, first, parameters->other_rule, written);
        add_call_between(nfa, written, parameters->other_rule, written);
    }
    nfa_add_empty(nfa, first.at, end);
    nfa_add_empty(nfa, written.at, end);
}

static enum status read_schema(struct json_schema *schema, struct parameters *parameters) {
    struct json_schema_others others;
    TRY(json_schema_compile_parameters(schema, &parameters->declared, &parameters->declared_count, &others));
    parameters->has_others = others.is_possible && (others.is_declared || parameters->declared_count == 0);
    parameters->other_text = others.text_rule;
    parameters->other_value = others.value_rule;
    return STATUS_OK;
}

enum status tool_parameters_add(const struct json_grammar *json, const struct json *schema, const char *path,
                                struct nfa *nfa, uint32_t from, uint32_t *end) {
    enum status status = STATUS_OK;
    struct parameters parameters = {.json = json};
    struct json_schema *compiled = NULL;
    struct json *any = json_new_bool(true);
    CHECK_MEMORY_GOTO(any);
    TRY_GOTO(json_schema_create(json, schema == NULL ? any : schema, path, &compiled));
    TRY_GOTO(read_schema(compiled, &parameters));
    TRY_GOTO(add_declared_rules(&parameters, path));
    TRY_GOTO(add_other_rule(&parameters));
    *end = nfa_add_state(nfa);
    if (parameters.declared_count <= TOOL_PARAMETERS_ANY_ORDER) {
        add_in_any_order(&parameters, nfa, from, *end);
    } else {
        add_in_order(&parameters, nfa, from, *end);
    }
fail:
    json_schema_destroy(&compiled);
    json_free(&any);
    return status;
}
