/* Values nest, so objects, arrays and values are rules; the rest of them calls these. */
#include "text/grammar/json_grammar.h"

#include <string.h>

#include "text/grammar/json_number.h"
#include "text/grammar/utf8_symbols.h"
#include "text/json_text.h"

enum { INDENT_MAX = 64 };

uint32_t json_grammar_add_blank(const struct json_grammar *json, struct nfa *nfa, uint32_t from) {
    return grammar_add_call(nfa, from, json->blank);
}

static uint32_t add_indent(struct nfa *nfa, uint32_t from, const void *context) {
    (void)context;
    uint32_t target = nfa_add_range(nfa, from, ' ', ' ');
    nfa_add_edge(nfa, from, '\t', '\t', target);
    return target;
}

static void fill_blank(struct json_grammar *json) {
    struct nfa *nfa = grammar_builder_nfa(json->builder, json->blank);
    uint32_t end = nfa_add_state(nfa);
    nfa_add_empty(nfa, 0, end);
    nfa_add_edge(nfa, 0, ' ', ' ', end);
    uint32_t line = nfa_add_range(nfa, 0, '\n', '\n');
    nfa_add_empty(nfa, nfa_add_repeat(nfa, line, add_indent, NULL, 0, INDENT_MAX), end);
    grammar_builder_close_rule(json->builder, json->blank, end);
}

static void add_hex_digits(struct nfa *nfa, uint32_t from, int count, uint32_t target) {
    for (int i = 0; i < count; i++) {
        uint32_t next = i + 1 == count ? target : nfa_add_state(nfa);
        nfa_add_edge(nfa, from, '0', '9', next);
        nfa_add_edge(nfa, from, 'A', 'F', next);
        nfa_add_edge(nfa, from, 'a', 'f', next);
        from = next;
    }
}

/* What follows \u: four digits that are no half of a pair, or both halves. */
static void add_unicode_escape(struct nfa *nfa, uint32_t from, uint32_t target) {
    static const struct {
        char first, last;
    } not_d[] = {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
    uint32_t plain = nfa_add_state(nfa);
    for (size_t i = 0; i < sizeof not_d / sizeof *not_d; i++) {
        nfa_add_edge(nfa, from, (unsigned char)not_d[i].first, (unsigned char)not_d[i].last, plain);
    }
    add_hex_digits(nfa, plain, 3, target);
    uint32_t d = nfa_add_range(nfa, from, 'D', 'D');
    nfa_add_edge(nfa, from, 'd', 'd', d);
    uint32_t below = nfa_add_range(nfa, d, '0', '7');
    add_hex_digits(nfa, below, 2, target);
    uint32_t high = nfa_add_range(nfa, d, '8', '9');
    nfa_add_edge(nfa, d, 'A', 'B', high);
    nfa_add_edge(nfa, d, 'a', 'b', high);
    uint32_t high_end = nfa_add_state(nfa);
    add_hex_digits(nfa, high, 2, high_end);
    uint32_t second = nfa_add_text(nfa, high_end, "\\u");
    uint32_t second_d = nfa_add_range(nfa, second, 'D', 'D');
    nfa_add_edge(nfa, second, 'd', 'd', second_d);
    uint32_t low = nfa_add_range(nfa, second_d, 'C', 'F');
    nfa_add_edge(nfa, second_d, 'c', 'f', low);
    add_hex_digits(nfa, low, 2, target);
}

/* One character of a string in any spelling. */
static uint32_t add_character(struct nfa *nfa, uint32_t from, const void *context) {
    (void)context;
    uint32_t target = nfa_add_state(nfa);
    utf8_symbols_add(nfa, from, 0x20, '"' - 1, target);
    utf8_symbols_add(nfa, from, '"' + 1, '\\' - 1, target);
    utf8_symbols_add(nfa, from, '\\' + 1, SYMBOL_CODE_POINTS - 1, target);
    uint32_t escape = nfa_add_range(nfa, from, '\\', '\\');
    for (const char *letter = "\"\\/bfnrt"; *letter != '\0'; letter++) {
        nfa_add_edge(nfa, escape, (unsigned char)*letter, (unsigned char)*letter, target);
    }
    add_unicode_escape(nfa, nfa_add_range(nfa, escape, 'u', 'u'), target);
    return target;
}

uint32_t json_grammar_add_string(struct nfa *nfa, uint32_t from, uint32_t minimum, uint32_t maximum) {
    from = nfa_add_range(nfa, from, '"', '"');
    from = nfa_add_repeat(nfa, from, add_character, NULL, minimum, maximum);
    return nfa_add_range(nfa, from, '"', '"');
}

uint32_t json_grammar_add_text(struct nfa *nfa, uint32_t from, const struct dfa *dfa) {
    from = nfa_add_range(nfa, from, '"', '"');
    from = utf8_symbols_add_dfa(nfa, from, dfa, utf8_symbols_add_json);
    return nfa_add_range(nfa, from, '"', '"');
}

uint32_t json_grammar_add_key(struct nfa *nfa, uint32_t from, const char *text, size_t length) {
    struct string_buffer escaped = {0};
    json_text_append_escaped(&escaped, text, length);
    nfa->is_out_of_memory = nfa->is_out_of_memory || escaped.is_failed;
    from = nfa_add_range(nfa, from, '"', '"');
    from = nfa_add_bytes(nfa, from, string_buffer_text(&escaped), escaped.length);
    string_buffer_deinit(&escaped);
    return nfa_add_range(nfa, from, '"', '"');
}

static uint32_t add_scalar(struct nfa *nfa, uint32_t from, const struct json *value) {
    struct string_buffer text = {0};
    nfa->is_out_of_memory = nfa->is_out_of_memory || json_write(value, &text) != STATUS_OK;
    from = nfa_add_bytes(nfa, from, string_buffer_text(&text), text.length);
    string_buffer_deinit(&text);
    return from;
}

static uint32_t add_constant_array(const struct json_grammar *json, struct nfa *nfa, uint32_t from,
                                   const struct json *value) {
    from = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, from, '[', '['));
    for (size_t i = 0; i < json_length(value); i++) {
        if (i > 0) {
            from = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, from, ',', ','));
        }
        from = json_grammar_add_constant(json, nfa, from, json_at(value, i));
    }
    from = json_length(value) > 0 ? json_grammar_add_blank(json, nfa, from) : from;
    return nfa_add_range(nfa, from, ']', ']');
}

static uint32_t add_constant_object(const struct json_grammar *json, struct nfa *nfa, uint32_t from,
                                    const struct json *value) {
    from = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, from, '{', '{'));
    bool is_first = true;
    for (const struct json_member *member = json_first(value); member != NULL;
         member = json_next(value, member)) {
        if (!is_first) {
            from = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, from, ',', ','));
        }
        is_first = false;
        size_t length;
        const char *key = json_member_key(member, &length);
        from = json_grammar_add_key(nfa, from, key, length);
        from = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, from, ':', ':'));
        from = json_grammar_add_constant(json, nfa, from, json_member_value(member));
    }
    from = is_first ? from : json_grammar_add_blank(json, nfa, from);
    return nfa_add_range(nfa, from, '}', '}');
}

uint32_t json_grammar_add_constant(const struct json_grammar *json, struct nfa *nfa, uint32_t from,
                                   const struct json *value) {
    size_t length;
    const char *text = json_text(value, &length);
    if (text != NULL) {
        return json_grammar_add_key(nfa, from, text, length);
    }
    if (json_kind(value) == JSON_KIND_ARRAY) {
        return add_constant_array(json, nfa, from, value);
    }
    if (json_kind(value) == JSON_KIND_OBJECT) {
        return add_constant_object(json, nfa, from, value);
    }
    return add_scalar(nfa, from, value);
}

/* opening ( item ( "," item )* )? closing, where an item ends in a value of any kind. */
static void fill_nested(struct json_grammar *json, uint32_t rule, char opening, char closing, bool has_keys) {
    struct nfa *nfa = grammar_builder_nfa(json->builder, rule);
    uint32_t inside = nfa_add_range(nfa, 0, (unsigned char)opening, (unsigned char)opening);
    uint32_t item = nfa_add_state(nfa);
    inside = json_grammar_add_blank(json, nfa, inside);
    nfa_add_empty(nfa, inside, item);
    uint32_t value = item;
    if (has_keys) {
        value = grammar_add_call(nfa, value, json->string);
        value = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, value, ':', ':'));
    }
    uint32_t behind = grammar_add_call(nfa, value, json->value);
    uint32_t comma = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, behind, ',', ','));
    nfa_add_empty(nfa, comma, item);
    uint32_t last = json_grammar_add_blank(json, nfa, behind);
    uint32_t end = nfa_add_range(nfa, last, (unsigned char)closing, (unsigned char)closing);
    nfa_add_edge(nfa, inside, (unsigned char)closing, (unsigned char)closing, end);
    grammar_builder_close_rule(json->builder, rule, end);
}

static void fill_value(struct json_grammar *json) {
    struct nfa *nfa = grammar_builder_nfa(json->builder, json->value);
    const struct number_range any_number = {.is_integer = false};
    uint32_t end = nfa_add_state(nfa);
    const uint32_t ends[] = {
        grammar_add_call(nfa, 0, json->string), grammar_add_call(nfa, 0, json->object),
        grammar_add_call(nfa, 0, json->array),  json_number_add(nfa, 0, &any_number),
        nfa_add_text(nfa, 0, "true"),           nfa_add_text(nfa, 0, "false"),
        nfa_add_text(nfa, 0, "null"),
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        nfa_add_empty(nfa, ends[i], end);
    }
    grammar_builder_close_rule(json->builder, json->value, end);
}

void json_grammar_init(struct json_grammar *json, struct grammar_builder *builder) {
    *json = (struct json_grammar){
        .builder = builder,
        .blank = grammar_builder_open_rule(builder, "blanks"),
        .string = grammar_builder_open_rule(builder, "a string"),
        .value = grammar_builder_open_rule(builder, "a value"),
        .object = grammar_builder_open_rule(builder, "an object"),
        .array = grammar_builder_open_rule(builder, "an array"),
    };
    if (builder->is_out_of_memory) {
        return;
    }
    fill_blank(json);
    struct nfa *nfa = grammar_builder_nfa(builder, json->string);
    grammar_builder_close_rule(builder, json->string, json_grammar_add_string(nfa, 0, 0, UINT32_MAX));
    fill_value(json);
    fill_nested(json, json->object, '{', '}', true);
    fill_nested(json, json->array, '[', ']', false);
}

enum status json_grammar_compile_object(struct grammar **out) {
    struct grammar_builder builder;
    struct json_grammar json;
    grammar_builder_init(&builder);
    json_grammar_init(&json, &builder);
    enum status status = grammar_builder_finish(&builder, json.object, "JSON", out);
    grammar_builder_deinit(&builder);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
