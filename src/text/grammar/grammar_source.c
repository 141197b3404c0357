/* The simple kinds are compiled here, each of one rule. */
#include "text/grammar/grammar_source.h"

#include "text/grammar/compile_work.h"
#include "text/grammar/ebnf.h"
#include "text/grammar/grammar_builder.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/pattern.h"
#include "text/grammar/tool_grammar.h"
#include "text/grammar/utf8_symbols.h"

static enum status compile_regex(const struct grammar_source *source, struct grammar **out) {
    enum status status = STATUS_OK;
    struct grammar_builder builder;
    struct dfa dfa;
    TRY(pattern_compile(source->text, source->length, PATTERN_WHOLE, "the regular expression", &dfa));
    grammar_builder_init(&builder);
    uint32_t rule = grammar_builder_open_rule(&builder, "the regular expression");
    CHECK_GOTO(!builder.is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    uint32_t end = utf8_symbols_add_dfa(grammar_builder_nfa(&builder, rule), 0, &dfa, utf8_symbols_add);
    grammar_builder_close_rule(&builder, rule, end);
    TRY_GOTO(grammar_builder_finish(&builder, rule, "the regular expression", out));
fail:
    dfa_deinit(&dfa);
    grammar_builder_deinit(&builder);
    return status;
}

static enum status build_choice(const struct json *choices, struct grammar_builder *builder,
                                struct grammar **out) {
    CHECK(json_kind(choices) == JSON_KIND_ARRAY && json_length(choices) > 0, STATUS_BAD_FORMAT,
          "the choices are no JSON array of one or more strings");
    uint32_t rule = grammar_builder_open_rule(builder, "the choices");
    CHECK(!builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    struct nfa *nfa = grammar_builder_nfa(builder, rule);
    uint32_t end = nfa_add_state(nfa);
    for (size_t i = 0; i < json_length(choices); i++) {
        size_t length;
        const char *text = json_text(json_at(choices, i), &length);
        CHECK(text != NULL && length > 0, STATUS_BAD_FORMAT, "choice %zu is no string, or an empty one", i);
        nfa_add_empty(nfa, nfa_add_bytes(nfa, 0, text, length), end);
    }
    grammar_builder_close_rule(builder, rule, end);
    return grammar_builder_finish(builder, rule, "the list of choices", out);
}

static enum status compile_choice(const struct json *choices, struct grammar **out) {
    struct grammar_builder builder;
    grammar_builder_init(&builder);
    enum status status = build_choice(choices, &builder, out);
    grammar_builder_deinit(&builder);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static const char *name_of(enum grammar_kind kind) {
    switch (kind) {
    case GRAMMAR_JSON_SCHEMA:
        return "the schema";
    case GRAMMAR_REGEX:
        return "the regular expression";
    case GRAMMAR_CHOICE:
        return "the list of choices";
    case GRAMMAR_TOOLS:
        return "the description of the tools";
    case GRAMMAR_NONE:
    case GRAMMAR_JSON_OBJECT:
    case GRAMMAR_EBNF:
        break;
    }
    return "the grammar";
}

/* The kinds whose text is JSON. */
static enum status compile_json(const struct grammar_source *source, struct grammar **out) {
    struct json *document;
    TRY(json_parse(source->text, source->length, name_of(source->kind), &document));
    enum status status = source->kind == GRAMMAR_JSON_SCHEMA ? json_schema_compile(document, out)
                         : source->kind == GRAMMAR_CHOICE    ? compile_choice(document, out)
                                                             : tool_grammar_compile(document, out);
    json_free(&document);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status compile(const struct grammar_source *source, struct grammar **out) {
    switch (source->kind) {
    case GRAMMAR_JSON_OBJECT:
        return json_grammar_compile_object(out);
    case GRAMMAR_REGEX:
        return compile_regex(source, out);
    case GRAMMAR_EBNF:
        return ebnf_compile(source->text, source->length, out);
    case GRAMMAR_JSON_SCHEMA:
    case GRAMMAR_CHOICE:
    case GRAMMAR_TOOLS:
        return compile_json(source, out);
    case GRAMMAR_NONE:
        break;
    }
    FAIL(STATUS_BAD_ARGUMENT, "no grammar was given");
}

enum status grammar_source_compile(const struct grammar_source *source, struct grammar **out) {
    *out = NULL;
    compile_work_begin(source->work_limit > 0 ? source->work_limit : GRAMMAR_WORK_MAX);
    enum status status = compile(source, out);
    compile_work_end();
    CHECK(status == STATUS_OK || !compile_work_is_over(), STATUS_UNSUPPORTED,
          "%s takes too long to work out: simplify its patterns, lower its counts or split it",
          name_of(source->kind));
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

bool grammar_source_is_cut_short(void) {
    return compile_work_is_over();
}
