/* Numbers and strings. */
#include <string.h>

#include "text/grammar/json_schema_internal.h"
#include "text/grammar/pattern.h"
#include "text/grammar/utf8_symbols.h"
#include "text/utf8.h"

static enum status tighten(const struct schema_node *node, const char *keyword, bool is_lower,
                           bool is_exclusive, struct number_bound *bound) {
    const struct json *value = json_get(node->value, keyword);
    struct number_bound read;
    if (value == NULL) {
        return STATUS_OK;
    }
    CHECK(number_bound_read(value, is_exclusive, &read), STATUS_UNSUPPORTED,
          "the schema's keyword \"%s\" at %s has more than %d digits, which is not supported", keyword,
          node->path, NUMBER_DIGITS_MAX);
    number_bound_tighten(bound, &read, is_lower);
    return STATUS_OK;
}

enum status conjunction_number_range(const struct conjunction *conjunction, struct number_range *out) {
    *out = (struct number_range){.is_integer = false};
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct schema_node *node = &conjunction->nodes[i];
        TRY(tighten(node, "minimum", true, false, &out->lower));
        TRY(tighten(node, "exclusiveMinimum", true, true, &out->lower));
        TRY(tighten(node, "maximum", false, false, &out->upper));
        TRY(tighten(node, "exclusiveMaximum", false, true, &out->upper));
    }
    return STATUS_OK;
}

enum status schema_add_number(const struct conjunction *conjunction, unsigned types, struct nfa *nfa,
                              uint32_t end) {
    struct number_range range;
    TRY(conjunction_number_range(conjunction, &range));
    range.is_integer = (types & SCHEMA_REAL) == 0;
    nfa_add_empty(nfa, json_number_add(nfa, 0, &range), end);
    return STATUS_OK;
}

/* Narrows `text` to what the pattern matches; the first one is taken as it is. */
static enum status narrow(struct dfa *text, bool *is_any, const char *pattern, size_t length,
                          enum pattern_extent extent, const char *what) {
    struct dfa compiled;
    struct dfa both = {0};
    TRY(pattern_compile(pattern, length, extent, what, &compiled));
    if (*is_any) {
        *text = compiled;
        *is_any = false;
        return STATUS_OK;
    }
    enum status status = dfa_intersect(text, &compiled, PATTERN_STATES_MAX, what, &both);
    dfa_deinit(&compiled);
    dfa_deinit(text);
    *text = both;
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status narrow_by_format(const struct schema_node *node, struct dfa *text, bool *is_any) {
    /* Formats of numbers, and of strings that any text is right for. */
    static const char *const free_formats[] = {"int32", "int64", "float", "double", "password"};
    const struct json *format = json_get(node->value, "format");
    if (format == NULL) {
        return STATUS_OK;
    }
    const char *name = json_text(format, NULL);
    for (size_t i = 0; i < sizeof free_formats / sizeof *free_formats; i++) {
        if (strcmp(free_formats[i], name) == 0) {
            return STATUS_OK;
        }
    }
    const char *pattern = json_format_pattern(name);
    CHECK(pattern != NULL, STATUS_UNSUPPORTED,
          "the schema's keyword \"format\" at %s is \"%s\", which is not supported; use \"pattern\", or "
          "leave it out",
          node->path, name);
    return narrow(text, is_any, pattern, strlen(pattern), PATTERN_WHOLE, "the format");
}

static enum status narrow_by_pattern(struct json_schema *schema, const struct schema_node *node,
                                     struct dfa *text, bool *is_any) {
    const struct json *pattern = json_get(node->value, "pattern");
    if (pattern == NULL) {
        return STATUS_OK;
    }
    size_t length;
    const char *bytes = json_text(pattern, &length);
    const char *what = arena_format(schema->arena, "the schema's keyword \"pattern\" at %s", node->path);
    CHECK_MEMORY(what);
    return narrow(text, is_any, bytes, length, PATTERN_PART, what);
}

static enum status read_lengths(const struct conjunction *conjunction, uint32_t *minimum, uint32_t *maximum) {
    *minimum = 0;
    *maximum = UINT32_MAX;
    for (size_t i = 0; i < conjunction->count; i++) {
        TRY(schema_count(&conjunction->nodes[i], "minLength", true, minimum));
        TRY(schema_count(&conjunction->nodes[i], "maxLength", false, maximum));
    }
    return STATUS_OK;
}

static uint32_t add_any_character(struct nfa *nfa, uint32_t from, const void *context) {
    (void)context;
    uint32_t target = nfa_add_state(nfa);
    nfa_add_edge(nfa, from, 0, 0xD7FF, target);
    nfa_add_edge(nfa, from, 0xE000, SYMBOL_CODE_POINTS - 1, target);
    return target;
}

/* Narrows `text` to a number of characters. */
static enum status narrow_by_lengths(struct dfa *text, uint32_t minimum, uint32_t maximum, const char *what) {
    enum status status = STATUS_OK;
    struct nfa nfa;
    struct dfa lengths = {0};
    struct dfa both = {0};
    nfa_init(&nfa, 4 * PATTERN_STATES_MAX);
    uint32_t end = minimum > maximum ? nfa_add_state(&nfa)
                                     : nfa_add_repeat(&nfa, 0, add_any_character, NULL, minimum, maximum);
    TRY_GOTO(nfa_check(&nfa, what));
    TRY_GOTO(dfa_determinize(&nfa, 0, end, 2 * PATTERN_STATES_MAX, what, &lengths));
    TRY_GOTO(dfa_intersect(text, &lengths, PATTERN_STATES_MAX, what, &both));
    dfa_deinit(text);
    *text = both;
fail:
    nfa_deinit(&nfa);
    dfa_deinit(&lengths);
    return status;
}

enum status schema_string_text(struct json_schema *schema, const struct conjunction *conjunction,
                               bool with_lengths, struct dfa *out, bool *is_any) {
    enum status status = STATUS_OK;
    uint32_t minimum;
    uint32_t maximum;
    *is_any = true;
    *out = (struct dfa){0};
    for (size_t i = 0; i < conjunction->count; i++) {
        TRY_GOTO(narrow_by_pattern(schema, &conjunction->nodes[i], out, is_any));
        TRY_GOTO(narrow_by_format(&conjunction->nodes[i], out, is_any));
    }
    TRY_GOTO(read_lengths(conjunction, &minimum, &maximum));
    bool has_lengths = minimum > 0 || maximum != UINT32_MAX;
    if (has_lengths && (with_lengths || !*is_any)) {
        if (*is_any) {
            TRY_GOTO(narrow(out, is_any, "", 0, PATTERN_PART, "a string"));
        }
        TRY_GOTO(narrow_by_lengths(out, minimum, maximum, "the schema's string with a length"));
    }
    return STATUS_OK;
fail:
    dfa_deinit(out);
    return status;
}

/* Any text, from state 0. */
static uint32_t add_plain_text(struct nfa *nfa) {
    uint32_t loop = nfa_add_state(nfa);
    nfa_add_empty(nfa, 0, loop);
    utf8_symbols_add(nfa, loop, 0, SYMBOL_CODE_POINTS - 1, loop);
    return loop;
}

enum status schema_add_string(struct json_schema *schema, const struct conjunction *conjunction,
                              struct nfa *nfa, uint32_t end) {
    struct dfa text;
    bool is_any;
    uint32_t minimum;
    uint32_t maximum;
    TRY(schema_string_text(schema, conjunction, conjunction->is_plain_text, &text, &is_any));
    TRY(read_lengths(conjunction, &minimum, &maximum));
    uint32_t behind;
    if (conjunction->is_plain_text) {
        behind = is_any ? add_plain_text(nfa) : utf8_symbols_add_dfa(nfa, 0, &text, utf8_symbols_add);
    } else if (!is_any) {
        behind = json_grammar_add_text(nfa, 0, &text);
    } else if (minimum == 0 && maximum == UINT32_MAX) {
        behind = grammar_add_call(nfa, 0, schema->json->string);
    } else {
        behind = minimum > maximum ? nfa_add_state(nfa) : json_grammar_add_string(nfa, 0, minimum, maximum);
    }
    nfa_add_empty(nfa, behind, end);
    dfa_deinit(&text);
    return STATUS_OK;
}

/* Whether the automaton accepts the text. */
static bool accepts_text(const struct dfa *dfa, const char *text, size_t length) {
    uint32_t state = dfa->state_count == 0 ? UINT32_MAX : 0;
    for (size_t at = 0; at < length && state != UINT32_MAX;) {
        struct utf8_step step = utf8_next(text + at, length - at);
        state = dfa_step(dfa, state, step.code_point);
        at += step.length;
    }
    return state != UINT32_MAX && dfa->is_accepting[state];
}

static enum status string_fits(struct json_schema *schema, const struct conjunction *conjunction,
                               const struct json *value, bool *fits) {
    size_t length;
    const char *text = json_text(value, &length);
    struct dfa allowed;
    bool is_any;
    TRY(schema_string_text(schema, conjunction, true, &allowed, &is_any));
    *fits = is_any || accepts_text(&allowed, text, length);
    dfa_deinit(&allowed);
    return STATUS_OK;
}

/* Fixed values of these types are not compared with keywords: they must not have any. */
static enum status check_no_keywords(const struct conjunction *conjunction, bool is_object) {
    static const char *const of_objects[] = {"properties",    "required",      "additionalProperties",
                                             "minProperties", "maxProperties", NULL};
    static const char *const of_arrays[] = {"items", "prefixItems", "minItems", "maxItems", NULL};
    const char *const *names = is_object ? of_objects : of_arrays;
    for (size_t i = 0; i < conjunction->count; i++) {
        for (const char *const *name = names; *name != NULL; name++) {
            CHECK(json_get(conjunction->nodes[i].value, *name) == NULL, STATUS_UNSUPPORTED,
                  "the schema's keyword \"%s\" at %s stands beside fixed values, which is not supported; "
                  "leave it "
                  "out there",
                  *name, conjunction->nodes[i].path);
        }
    }
    return STATUS_OK;
}

enum status schema_value_fits(struct json_schema *schema, const struct conjunction *conjunction,
                              const struct json *value, bool *fits) {
    unsigned type = schema_type_of(value);
    *fits = true;
    if ((type & SCHEMA_NUMBER) != 0) {
        struct number_range range;
        struct number_bound number;
        TRY(conjunction_number_range(conjunction, &range));
        *fits = number_bound_read(value, false, &number) && number_range_contains(&range, &number);
        return STATUS_OK;
    }
    if (type == SCHEMA_STRING) {
        return string_fits(schema, conjunction, value, fits);
    }
    return type == SCHEMA_OBJECT || type == SCHEMA_ARRAY
               ? check_no_keywords(conjunction, type == SCHEMA_OBJECT)
               : STATUS_OK;
}
