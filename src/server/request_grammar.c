/* Every form becomes one of service.h's grammars and its text, in the request's arena. */
#include "server/request_grammar.h"

#include <stdio.h>
#include <string.h>

static enum status set_grammar(struct answer_settings *settings, struct request_reader *reader,
                               const char *name, enum service_grammar grammar, struct service_text text,
                               struct arena *arena) {
    if (settings->grammar != SERVICE_GRAMMAR_NONE) {
        return request_reader_fail(reader, name, STATUS_BAD_ARGUMENT,
                                   "asks for a second form of the answer; give only one");
    }
    settings->grammar = grammar;
    snprintf(settings->grammar_field, sizeof settings->grammar_field, "%s%s", reader->place, name);
    settings->grammar_text =
        (struct service_text){arena_copy_string(arena, text.bytes, text.length), text.length};
    CHECK_MEMORY(settings->grammar_text.bytes);
    return STATUS_OK;
}

/* A grammar whose text is a JSON value. */
static enum status set_json_grammar(struct answer_settings *settings, struct request_reader *reader,
                                    const char *name, enum service_grammar grammar, const struct json *value,
                                    struct arena *arena) {
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    TRY_GOTO(json_write(value, &text));
    TRY_GOTO(
        set_grammar(settings, reader, name, grammar, (struct service_text){text.data, text.length}, arena));
fail:
    string_buffer_deinit(&text);
    return status;
}

/* A schema as an object, a boolean, or the text of one. */
static enum status set_schema(struct answer_settings *settings, struct request_reader *reader,
                              const char *name, const struct json *schema, struct arena *arena) {
    size_t length = 0;
    const char *text = json_text(schema, &length);
    if (text != NULL) {
        return set_grammar(settings, reader, name, SERVICE_GRAMMAR_JSON_SCHEMA,
                           (struct service_text){text, length}, arena);
    }
    if (json_kind(schema) != JSON_KIND_OBJECT && json_kind(schema) != JSON_KIND_BOOL) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is no JSON schema");
    }
    return set_json_grammar(settings, reader, name, SERVICE_GRAMMAR_JSON_SCHEMA, schema, arena);
}

enum status request_grammar_read_format(struct answer_settings *settings, struct request_reader *reader,
                                        const char *name, const struct json *format, bool is_schema_flat,
                                        struct arena *arena) {
    const char *type = json_text(json_get(format, "type"), NULL);
    if (type == NULL) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT,
                                   "has no \"type\"; use text, json_object or json_schema");
    }
    if (strcmp(type, "text") == 0) {
        return STATUS_OK;
    }
    if (strcmp(type, "json_object") == 0) {
        return set_grammar(settings, reader, name, SERVICE_GRAMMAR_JSON, (struct service_text){"", 0}, arena);
    }
    if (strcmp(type, "json_schema") != 0) {
        return request_reader_fail(reader, name, STATUS_UNSUPPORTED,
                                   "has the type \"%.60s\"; use text, json_object or json_schema", type);
    }
    const struct json *holder = is_schema_flat ? format : json_get(format, "json_schema");
    const struct json *schema = json_get(holder, "schema");
    if (schema == NULL) {
        return request_reader_fail(
            reader, name, STATUS_BAD_FORMAT, "has no schema; it looks like {\"type\": \"json_schema\", %s}",
            is_schema_flat ? "\"schema\": {...}" : "\"json_schema\": {\"name\": ..., \"schema\": {...}}");
    }
    return set_schema(settings, reader, name, schema, arena);
}

static enum status read_text_grammar(struct answer_settings *settings, struct request_reader *reader,
                                     const char *name, enum service_grammar grammar, struct arena *arena) {
    struct service_text text = {.bytes = NULL};
    TRY(request_reader_text(reader, name, &text.bytes, &text.length));
    return text.bytes == NULL ? STATUS_OK : set_grammar(settings, reader, name, grammar, text, arena);
}

static enum status read_choices(struct answer_settings *settings, struct request_reader *reader,
                                const char *name, struct arena *arena) {
    const struct json *list = NULL;
    TRY(request_reader_array(reader, name, &list));
    for (size_t i = 0; i < json_length(list); i++) {
        if (json_text(json_at(list, i), NULL) == NULL) {
            return request_reader_fail(reader, name, STATUS_BAD_FORMAT,
                                       "holds something that is no string, at place %zu", i);
        }
    }
    if (list == NULL) {
        return STATUS_OK;
    }
    if (json_length(list) == 0) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "offers nothing to choose from");
    }
    return set_json_grammar(settings, reader, name, SERVICE_GRAMMAR_CHOICE, list, arena);
}

/* The names of the five forms: within structured_outputs, and as older vLLM has them. */
struct form_names {
    const char *json, *json_object, *regex, *choice, *grammar;
};

static enum status read_forms(struct answer_settings *settings, struct request_reader *reader,
                              const struct form_names *names, struct arena *arena) {
    const struct json *schema = request_reader_get(reader, names->json);
    bool is_any_object = false;
    if (schema != NULL) {
        TRY(set_schema(settings, reader, names->json, schema, arena));
    }
    TRY(request_reader_bool(reader, names->json_object, &is_any_object));
    if (is_any_object) {
        TRY(set_grammar(settings, reader, names->json_object, SERVICE_GRAMMAR_JSON,
                        (struct service_text){"", 0}, arena));
    }
    TRY(read_text_grammar(settings, reader, names->regex, SERVICE_GRAMMAR_REGEX, arena));
    TRY(read_choices(settings, reader, names->choice, arena));
    return read_text_grammar(settings, reader, names->grammar, SERVICE_GRAMMAR_EBNF, arena);
}

static enum status read_structured_outputs(struct answer_settings *settings, struct request_reader *reader,
                                           struct arena *arena) {
    static const struct form_names names = {"json", "json_object", "regex", "choice", "grammar"};
    static const char *const passed_over[] = {"disable_fallback", "disable_any_whitespace",
                                              "whitespace_pattern"};
    const struct json *object = NULL;
    TRY(request_reader_object(reader, "structured_outputs", &object));
    if (object == NULL) {
        return STATUS_OK;
    }
    struct request_reader inner;
    TRY(request_reader_init(&inner, object, "structured_outputs."));
    enum status status = read_forms(settings, &inner, &names, arena);
    if (status == STATUS_OK) {
        status = request_reader_refuse(&inner, "structural_tag", "use tools, or a grammar");
    }
    if (status == STATUS_OK) {
        status = request_reader_refuse(&inner, "disable_additional_properties",
                                       "write \"additionalProperties\": false into the schema");
    }
    /* How a form is enforced, and its blanks, are this server's own choice, here and in guided_*. */
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++) {
        request_reader_get(&inner, passed_over[i]);
    }
    if (status == STATUS_OK) {
        status = request_reader_refuse_unknown(&inner, "use json, json_object, regex, choice or grammar");
    }
    return request_reader_forward(reader, &inner, status);
}

enum status request_grammar_read(struct answer_settings *settings, struct request_reader *reader,
                                 struct arena *arena) {
    static const struct form_names names = {"guided_json", "guided_json_object", "guided_regex",
                                            "guided_choice", "guided_grammar"};
    const struct json *format = NULL;
    TRY(request_reader_object(reader, "response_format", &format));
    if (format != NULL) {
        TRY(request_grammar_read_format(settings, reader, "response_format", format, false, arena));
    }
    TRY(read_structured_outputs(settings, reader, arena));
    TRY(read_forms(settings, reader, &names, arena));
    request_reader_get(reader, "guided_decoding_backend");
    request_reader_get(reader, "guided_whitespace_pattern");
    return request_reader_refuse(reader, "structural_tag", "use tools, or a grammar");
}

enum status request_grammar_set_tools(struct answer_settings *settings, struct request_reader *reader,
                                      const struct json *tools, const char *schema_name,
                                      const char *choice_json, bool is_parallel, struct arena *arena) {
    bool is_auto = strcmp(choice_json, "\"auto\"") == 0;
    if (settings->grammar != SERVICE_GRAMMAR_NONE && is_auto) {
        return STATUS_OK;
    }
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    string_buffer_append_text(&text, "{");
    if (schema_name != NULL) {
        string_buffer_append_format(&text, "\"schema_name\":\"%s\",", schema_name);
    }
    string_buffer_append_text(&text, "\"tools\":");
    TRY_GOTO(json_write(tools, &text));
    string_buffer_append_format(&text, ",\"tool_choice\":%s,\"parallel_tool_calls\":%s}", choice_json,
                                is_parallel ? "true" : "false");
    TRY_GOTO(string_buffer_check(&text));
    TRY_GOTO(set_grammar(settings, reader, "tool_choice", SERVICE_GRAMMAR_TOOLS,
                         (struct service_text){text.data, text.length}, arena));
    /* Left to itself the model may still call a tool; without its schema it is only less sure to fit. */
    settings->is_grammar_optional = is_auto;
    snprintf(settings->grammar_field, sizeof settings->grammar_field, "tools");
fail:
    string_buffer_deinit(&text);
    return status;
}
