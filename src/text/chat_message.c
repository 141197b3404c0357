/*
 * JSON fields to structs. Errors name the place in the request ("messages[2].tool_calls[0]"), because the
 * user sees them as the answer to an HTTP request.
 */
#include "text/chat_message.h"

#include <stdio.h>
#include <string.h>

/* Long enough for "messages[N]". */
enum { PLACE_BYTES = 40 };

struct reader {
    struct arena *arena;
    char place[PLACE_BYTES]; /* of the message being read, "" for the request itself */
};

static const struct chat_text empty_text = {"", 0};

static enum status copy_text(struct reader *reader, const char *bytes, size_t length, struct chat_text *out) {
    *out = (struct chat_text){arena_copy_string(reader->arena, bytes, length), length};
    CHECK_MEMORY(out->bytes);
    return STATUS_OK;
}

/* The member, NULL if it is absent or null. */
static const struct json *get_present(const struct json *object, const char *key) {
    const struct json *value = json_get(object, key);
    return value == NULL || json_kind(value) == JSON_KIND_NULL ? NULL : value;
}

static enum status read_string(struct reader *reader, const struct json *object, const char *key,
                               struct chat_text *out) {
    *out = empty_text;
    const struct json *value = get_present(object, key);
    if (value == NULL) {
        return STATUS_OK;
    }
    size_t length;
    const char *bytes = json_text(value, &length);
    CHECK(bytes != NULL, STATUS_BAD_FORMAT, "%s.%s is not a string", reader->place, key);
    return copy_text(reader, bytes, length, out);
}

static enum status read_bool(struct reader *reader, const struct json *object, const char *key, bool *out) {
    const struct json *value = get_present(object, key);
    CHECK(value == NULL || json_kind(value) == JSON_KIND_BOOL, STATUS_BAD_FORMAT,
          "%s.%s is neither true nor false", reader->place, key);
    *out = value != NULL && json_bool(value);
    return STATUS_OK;
}

/* The JSON text of `value` in the spacing of the prompt. */
static enum status write_json(struct reader *reader, const struct json *value, struct chat_text *out) {
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    TRY_GOTO(json_write_spaced(value, &text));
    TRY_GOTO(copy_text(reader, string_buffer_text(&text), text.length, out));
fail:
    string_buffer_deinit(&text);
    return status;
}

/* Reads a member that must be an array; a missing one has no items. */
static enum status read_array(struct reader *reader, const struct json *object, const char *key,
                              const struct json **out) {
    *out = get_present(object, key);
    CHECK(*out == NULL || json_kind(*out) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT, "%s.%s is not a list",
          reader->place, key);
    return STATUS_OK;
}

static enum status append_part(const struct reader *reader, const struct json *part, size_t index,
                               bool is_tool_result, struct string_buffer *out) {
    size_t type_length;
    const char *type = json_text(json_get(part, "type"), &type_length);
    CHECK(type != NULL, STATUS_BAD_FORMAT,
          "%s.content[%zu] has no \"type\"; a part looks like {\"type\": \"text\", \"text\": \"...\"}",
          reader->place, index);
    string_buffer_append_text(out, index > 0 ? "\n\n" : "");
    if (strcmp(type, "text") == 0) {
        size_t length;
        const struct json *text = get_present(part, "text");
        const char *bytes = text == NULL ? "" : json_text(text, &length);
        CHECK(bytes != NULL, STATUS_BAD_FORMAT, "%s.content[%zu].text is not a string", reader->place, index);
        string_buffer_append(out, bytes, text == NULL ? 0 : length);
        return STATUS_OK;
    }
    CHECK(is_tool_result, STATUS_UNSUPPORTED, "%s.content[%zu] is of type \"%s\"; this model reads text only",
          reader->place, index, type);
    string_buffer_append_text(out, "[Unsupported ");
    string_buffer_append(out, type, type_length);
    string_buffer_append_char(out, ']');
    return STATUS_OK;
}

static enum status read_content(struct reader *reader, const struct json *message, bool is_tool_result,
                                struct chat_text *out) {
    const struct json *content = get_present(message, "content");
    if (content == NULL || json_kind(content) == JSON_KIND_STRING) {
        return read_string(reader, message, "content", out);
    }
    CHECK(json_kind(content) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "%s.content is neither a string nor a list of parts", reader->place);
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_length(content); i++) {
        TRY_GOTO(append_part(reader, json_at(content, i), i, is_tool_result, &text));
    }
    TRY_GOTO(string_buffer_check(&text));
    TRY_GOTO(copy_text(reader, string_buffer_text(&text), text.length, out));
fail:
    string_buffer_deinit(&text);
    return status;
}

static enum status read_role(const struct reader *reader, const struct json *message, enum chat_role *out) {
    static const char *const names[] = {"system",          "user",     "assistant", "tool",
                                        "latest_reminder", "developer"};
    const char *role = json_text(json_get(message, "role"), NULL);
    CHECK(role != NULL, STATUS_BAD_FORMAT,
          "%s has no \"role\"; use system, user, assistant, tool, latest_reminder or developer",
          reader->place);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(role, names[i]) == 0) {
            *out = (enum chat_role)i;
            return STATUS_OK;
        }
    }
    FAIL(STATUS_BAD_FORMAT,
         "%s.role is \"%s\"; use system, user, assistant, tool, latest_reminder or developer", reader->place,
         role);
}

static enum status read_arguments(struct reader *reader, const struct json *function, struct chat_text *out) {
    const struct json *arguments = get_present(function, "arguments");
    if (arguments == NULL) {
        *out = (struct chat_text){"{}", 2};
        return STATUS_OK;
    }
    if (json_kind(arguments) == JSON_KIND_OBJECT) {
        return write_json(reader, arguments, out);
    }
    return read_string(reader, function, "arguments", out);
}

static enum status read_tool_calls(struct reader *reader, const struct json *message,
                                   struct chat_message *out) {
    const struct json *list;
    TRY(read_array(reader, message, "tool_calls", &list));
    size_t count = list == NULL ? 0 : json_length(list);
    struct chat_tool_call *calls = ARENA_NEW(reader->arena, struct chat_tool_call, count);
    CHECK_MEMORY(calls);
    for (size_t i = 0; i < count; i++) {
        const struct json *call = json_at(list, i);
        const struct json *function = json_get(call, "function");
        CHECK(json_text(json_get(function, "name"), NULL) != NULL, STATUS_BAD_FORMAT,
              "%s.tool_calls[%zu] has no function name; a call looks like "
              "{\"id\": \"...\", \"function\": {\"name\": \"...\", \"arguments\": \"{...}\"}}",
              reader->place, i);
        TRY(read_string(reader, call, "id", &calls[i].id));
        TRY(read_string(reader, function, "name", &calls[i].name));
        TRY(read_arguments(reader, function, &calls[i].arguments));
    }
    out->tool_calls = calls;
    out->tool_call_count = count;
    return STATUS_OK;
}

/* Reads a list of tools behind those that `out` already has. */
static enum status append_tools(struct reader *reader, const struct json *list, struct chat_message *out) {
    size_t added_count = list == NULL ? 0 : json_length(list);
    if (added_count == 0) {
        return STATUS_OK;
    }
    struct chat_tool *tools = ARENA_NEW(reader->arena, struct chat_tool, out->tool_count + added_count);
    CHECK_MEMORY(tools);
    if (out->tool_count > 0) {
        memcpy(tools, out->tools, out->tool_count * sizeof *tools);
    }
    for (size_t i = 0; i < added_count; i++) {
        const struct json *function = json_get(json_at(list, i), "function");
        struct chat_tool *tool = &tools[out->tool_count + i];
        CHECK(json_text(json_get(function, "name"), NULL) != NULL, STATUS_BAD_FORMAT,
              "%s%stools[%zu] has no function name; a tool looks like "
              "{\"type\": \"function\", \"function\": {\"name\": \"...\", \"parameters\": {...}}}",
              reader->place, reader->place[0] == '\0' ? "" : ".", i);
        TRY(read_string(reader, function, "name", &tool->name));
        TRY(write_json(reader, function, &tool->function_json));
    }
    out->tools = tools;
    out->tool_count += added_count;
    return STATUS_OK;
}

static enum status read_task(struct reader *reader, const struct json *message, enum control_token *out) {
    struct chat_text name;
    *out = CONTROL_TOKEN_NONE;
    TRY(read_string(reader, message, "task", &name));
    if (name.length > 0) {
        *out = control_token_of_task(name.bytes, name.length);
        CHECK(*out != CONTROL_TOKEN_NONE, STATUS_BAD_FORMAT,
              "%s.task is \"%s\"; use action, query, authority, domain, title, read_url or extracted_url",
              reader->place, name.bytes);
    }
    return STATUS_OK;
}

static enum status read_message(struct reader *reader, const struct json *message, struct chat_message *out) {
    CHECK(json_kind(message) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT, "%s is not an object", reader->place);
    TRY(read_role(reader, message, &out->role));
    TRY(read_content(reader, message, out->role == CHAT_ROLE_TOOL, &out->content));
    bool has_long_name = get_present(message, "reasoning_content") != NULL;
    TRY(read_string(reader, message, has_long_name ? "reasoning_content" : "reasoning", &out->reasoning));
    TRY(read_string(reader, message, "tool_call_id", &out->tool_call_id));
    TRY(read_tool_calls(reader, message, out));
    TRY(read_task(reader, message, &out->task));
    TRY(read_bool(reader, message, "wo_eos", &out->is_without_eos));
    const struct json *response_format = get_present(message, "response_format");
    out->response_format = empty_text;
    out->has_response_format = response_format != NULL;
    if (response_format != NULL) {
        TRY(write_json(reader, response_format, &out->response_format));
    }
    const struct json *tools;
    TRY(read_array(reader, message, "tools", &tools));
    return append_tools(reader, tools, out);
}

struct chat_message chat_message_of_text(enum chat_role role, const char *content, size_t length) {
    return (struct chat_message){.role = role,
                                 .content = {content, length},
                                 .reasoning = empty_text,
                                 .tool_call_id = empty_text,
                                 .response_format = empty_text,
                                 .task = CONTROL_TOKEN_NONE};
}

enum status chat_conversation_parse(const struct json *messages, const struct json *tools,
                                    struct arena *arena, struct chat_conversation *out) {
    CHECK(messages != NULL && json_kind(messages) == JSON_KIND_ARRAY && json_length(messages) > 0,
          STATUS_BAD_FORMAT, "messages is not a list with at least one message");
    bool has_tools = tools != NULL && json_kind(tools) != JSON_KIND_NULL;
    CHECK(!has_tools || json_kind(tools) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT, "tools is not a list");
    struct reader reader = {.arena = arena};
    size_t count = json_length(messages);
    /* One place in front for the system message that the request's tools may need. */
    struct chat_message *all = ARENA_NEW(arena, struct chat_message, count + 1);
    CHECK_MEMORY(all);
    for (size_t i = 0; i < count; i++) {
        snprintf(reader.place, sizeof reader.place, "messages[%zu]", i);
        TRY(read_message(&reader, json_at(messages, i), &all[i + 1]));
    }
    *out = (struct chat_conversation){all + 1, count};
    if (has_tools && json_length(tools) > 0) {
        if (all[1].role != CHAT_ROLE_SYSTEM && all[1].role != CHAT_ROLE_DEVELOPER) {
            all[0] = chat_message_of_text(CHAT_ROLE_SYSTEM, "", 0);
            *out = (struct chat_conversation){all, count + 1};
        }
        reader.place[0] = '\0';
        TRY(append_tools(&reader, tools, &out->messages[0]));
    }
    return STATUS_OK;
}
