/* One rule for each tool's call; the block and the text around it are the root's. */
#include "text/grammar/tool_grammar.h"

#include <string.h>

#include "text/grammar/tool_parameters.h"

enum { TOOLS_MAX = 500 };

enum tool_choice { TOOL_CHOICE_AUTO, TOOL_CHOICE_NONE, TOOL_CHOICE_REQUIRED, TOOL_CHOICE_NAMED };

struct tool_request {
    const struct json *tools;
    enum tool_choice choice;
    const char *name; /* of TOOL_CHOICE_NAMED */
    const char *schema_name;
    bool is_parallel;
};

static enum status read_choice(const struct json *choice, struct tool_request *out) {
    static const struct {
        const char *name;
        enum tool_choice choice;
    } names[] = {{"auto", TOOL_CHOICE_AUTO}, {"none", TOOL_CHOICE_NONE}, {"required", TOOL_CHOICE_REQUIRED}};
    const char *text = choice == NULL ? "auto" : json_text(choice, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names && text != NULL; i++) {
        if (strcmp(names[i].name, text) == 0) {
            out->choice = names[i].choice;
            return STATUS_OK;
        }
    }
    out->choice = TOOL_CHOICE_NAMED;
    const struct json *name = text == NULL ? json_get(json_get(choice, "function"), "name") : NULL;
    out->name = name == NULL ? NULL : json_text(name, NULL);
    CHECK(out->name != NULL, STATUS_BAD_FORMAT,
          "tool_choice is not \"auto\", \"required\", \"none\" or {\"type\": \"function\", \"function\": "
          "{\"name\": "
          "...}}");
    return STATUS_OK;
}

static enum status read_request(const struct json *description, struct tool_request *out) {
    const struct json *parallel = json_get(description, "parallel_tool_calls");
    out->tools = json_get(description, "tools");
    out->is_parallel = parallel == NULL || json_bool(parallel);
    const char *schema_name = json_text(json_get(description, "schema_name"), NULL);
    out->schema_name = schema_name == NULL ? "function.parameters" : schema_name;
    size_t count = json_length(out->tools);
    CHECK(out->tools != NULL && json_kind(out->tools) == JSON_KIND_ARRAY && count > 0, STATUS_BAD_FORMAT,
          "\"tools\" is no array of one or more tools");
    CHECK(count <= TOOLS_MAX, STATUS_UNSUPPORTED, "more than %d tools were given", TOOLS_MAX);
    return read_choice(json_get(description, "tool_choice"), out);
}

/* A tool is {"function": {...}}, or the inner object itself. */
static const struct json *function_of(const struct json *tool) {
    const struct json *function = json_get(tool, "function");
    return function != NULL ? function : tool;
}

static enum status read_name(const struct json *function, size_t index, const char **out) {
    const struct json *name = json_get(function, "name");
    size_t length = 0;
    *out = name == NULL ? NULL : json_text(name, &length);
    CHECK(*out != NULL && length > 0 && strpbrk(*out, "\"<>\r\n") == NULL, STATUS_BAD_FORMAT,
          "tools[%zu] has no name, or one with quotes, newlines or angle brackets", index);
    return STATUS_OK;
}

/* `<DSinvoke name="NAME">`, a newline, the parameters, a newline, `</DSinvoke>` */
static enum status add_tool(const struct json_grammar *json, const struct tool_request *request, size_t index,
                            const char *name, uint32_t *rule) {
    struct grammar_builder *builder = json->builder;
    const struct json *function = function_of(json_at(request->tools, index));
    const char *path = arena_format(&builder->arena, "$.tools[%zu].%s", index, request->schema_name);
    CHECK_MEMORY(path);
    const struct json *strict = json_get(function, "strict");
    bool is_free = strict != NULL && json_kind(strict) == JSON_KIND_BOOL && !json_bool(strict);
    const struct json *parameters = json_get(function, "parameters");
    /* Clients that write out all members write null for those that were not given. */
    is_free = is_free || (parameters != NULL && json_kind(parameters) == JSON_KIND_NULL);
    *rule = grammar_builder_open_rule(builder, name);
    CHECK(!builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    struct nfa *nfa = grammar_builder_nfa(builder, *rule);
    uint32_t at = tool_markup_add(nfa, 0, "<", "invoke name=\"");
    at = nfa_add_text(nfa, nfa_add_text(nfa, at, name), "\">\n");
    TRY(tool_parameters_add(json, is_free ? NULL : parameters, path, nfa, at, &at));
    at = tool_markup_add(nfa, nfa_add_text(nfa, at, "\n"), "</", "invoke>");
    grammar_builder_close_rule(builder, *rule, at);
    return STATUS_OK;
}

/* The rule of one call of any tool that may be called. */
static enum status add_calls(const struct json_grammar *json, const struct tool_request *request,
                             uint32_t *out) {
    *out = grammar_builder_open_rule(json->builder, "a tool call");
    CHECK(!json->builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    struct nfa *nfa = grammar_builder_nfa(json->builder, *out);
    uint32_t end = nfa_add_state(nfa);
    bool is_found = false;
    for (size_t i = 0; i < json_length(request->tools); i++) {
        const char *name;
        uint32_t rule;
        TRY(read_name(function_of(json_at(request->tools, i)), i, &name));
        if (request->choice == TOOL_CHOICE_NAMED && strcmp(name, request->name) != 0) {
            continue;
        }
        is_found = true;
        TRY(add_tool(json, request, i, name, &rule));
        nfa_add_empty(nfa, grammar_add_call(nfa, 0, rule), end);
    }
    CHECK(is_found, STATUS_BAD_FORMAT, "tool_choice names the function \"%s\", which is not among the tools",
          request->name);
    grammar_builder_close_rule(json->builder, *out, end);
    return STATUS_OK;
}

/* Two newlines, the block's opening tag, one or several calls, its closing tag. */
static uint32_t add_block(struct nfa *nfa, uint32_t from, uint32_t call_rule, bool is_parallel) {
    uint32_t start = tool_markup_add(nfa, from, "\n\n<", "tool_calls>\n");
    uint32_t next = nfa_add_state(nfa);
    nfa_add_empty(nfa, start, next);
    uint32_t behind = grammar_add_call(nfa, next, call_rule);
    if (is_parallel) {
        nfa_add_edge(nfa, behind, '\n', '\n', next);
    }
    return tool_markup_add(nfa, nfa_add_text(nfa, behind, "\n"), "</", "tool_calls>");
}

static enum status build(const struct json *description, struct grammar_builder *builder,
                         struct grammar **out) {
    struct json_grammar json;
    struct tool_request request = {.choice = TOOL_CHOICE_AUTO};
    TRY(read_request(description, &request));
    json_grammar_init(&json, builder);
    uint32_t root = grammar_builder_open_rule(builder, "the answer");
    CHECK(!builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    struct nfa *nfa = grammar_builder_nfa(builder, root);
    uint32_t end = nfa_add_state(nfa);
    uint32_t from = 0;
    if (request.choice == TOOL_CHOICE_AUTO || request.choice == TOOL_CHOICE_NONE) {
        from = tool_text_add(nfa, from);
        nfa_add_empty(nfa, from, end);
    }
    if (request.choice != TOOL_CHOICE_NONE) {
        uint32_t calls;
        TRY(add_calls(&json, &request, &calls));
        nfa_add_empty(nfa, add_block(nfa, from, calls, request.is_parallel), end);
    }
    grammar_builder_close_rule(builder, root, end);
    return grammar_builder_finish(builder, root, "the grammar of the tools", out);
}

enum status tool_grammar_compile(const struct json *description, struct grammar **out) {
    struct grammar_builder builder;
    *out = NULL;
    grammar_builder_init(&builder);
    enum status status = build(description, &builder, out);
    grammar_builder_deinit(&builder);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
