/*
 * Block by block. Tool results become messages of their own in front of a user's text; the chat encoder makes
 * one turn of them. Thinking, text and calls of an assistant are one message.
 */
#include "server/messages_request.h"

#include <stdio.h>
#include <string.h>

#include "lib/json.h"
#include "text/json_writer.h"

static const char attribution_header[] = "x-anthropic-billing-header:";

struct converter {
    struct request_reader *reader;
    struct json_writer writer;
    size_t message; /* index, for errors */
};

static enum status refuse(struct converter *converter, enum status status, const char *what,
                          const char *detail) {
    snprintf(converter->reader->parameter, sizeof converter->reader->parameter, "messages.%zu",
             converter->message);
    return error_raise(status, ERROR_HERE, "messages.%zu%s%s%s", converter->message, what,
                       detail == NULL ? "" : " ", detail == NULL ? "" : detail);
}

static const char *type_of(const struct json *block) {
    const char *type = json_text(json_get(block, "type"), NULL);
    return type != NULL ? type : "";
}

static bool is_type(const struct json *block, const char *type) {
    return strcmp(type_of(block), type) == 0;
}

/* A text block must have one: what is left out silently nobody misses until the answer is strange. */
static bool has_text(const struct json *block) {
    size_t length;
    return json_text(json_get(block, "text"), &length) != NULL;
}

static const char no_text[] = " has a text block without a text";

static void append_member(struct string_buffer *out, const struct json *block, const char *key,
                          const char *separator) {
    size_t length = 0;
    const char *text = json_text(json_get(block, key), &length);
    if (text != NULL) {
        string_buffer_append_text(out, out->length > 0 ? separator : "");
        string_buffer_append(out, text, length);
    }
}

/* Text of a string or of text blocks; other blocks read as "[Unsupported TYPE]", as the chat format has it.
 */
static void append_content(struct string_buffer *out, const struct json *content) {
    size_t length = 0;
    const char *text = json_text(content, &length);
    if (text != NULL) {
        string_buffer_append(out, text, length);
    }
    for (size_t i = 0; text == NULL && i < json_length(content); i++) {
        const struct json *block = json_at(content, i);
        if (is_type(block, "text")) {
            append_member(out, block, "text", "\n\n");
        } else {
            string_buffer_append_format(out, "%s[Unsupported %.40s]", out->length > 0 ? "\n\n" : "",
                                        type_of(block));
        }
    }
}

static void write_message(struct converter *converter, const char *role, const char *id,
                          const struct string_buffer *content) {
    struct json_writer *writer = &converter->writer;
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "role", role);
    if (id != NULL) {
        json_writer_text(writer, "tool_call_id", id);
    }
    json_writer_bytes(writer, "content", string_buffer_text(content), content->length);
    json_writer_end(writer, '}');
}

static enum status convert_tool_result(struct converter *converter, const struct json *block) {
    struct string_buffer content = {0};
    const char *id = json_text(json_get(block, "tool_use_id"), NULL);
    if (id == NULL) {
        return refuse(converter, STATUS_BAD_FORMAT, " has a tool_result without a tool_use_id", NULL);
    }
    const struct json *result = json_get(block, "content");
    enum json_kind kind = result == NULL ? JSON_KIND_NULL : json_kind(result);
    if (kind != JSON_KIND_NULL && kind != JSON_KIND_STRING && kind != JSON_KIND_ARRAY) {
        return refuse(converter, STATUS_BAD_FORMAT,
                      " has a tool_result whose content is neither a text nor a list of blocks", NULL);
    }
    append_content(&content, result);
    write_message(converter, "tool", id, &content);
    string_buffer_deinit(&content);
    return STATUS_OK;
}

/* A user's blocks, in their order. */
static enum status convert_user(struct converter *converter, const struct json *content) {
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    size_t result_count = 0;
    for (size_t i = 0; i < json_length(content) && status == STATUS_OK; i++) {
        const struct json *block = json_at(content, i);
        if (is_type(block, "text") && !has_text(block)) {
            status = refuse(converter, STATUS_BAD_FORMAT, no_text, NULL);
        } else if (is_type(block, "text")) {
            append_member(&text, block, "text", "\n\n");
        } else if (is_type(block, "tool_result")) {
            result_count++;
            if (text.length > 0) {
                write_message(converter, "user", NULL, &text);
                string_buffer_clear(&text);
            }
            status = convert_tool_result(converter, block);
        } else {
            status =
                refuse(converter, STATUS_UNSUPPORTED,
                       " has a block that this model cannot read (it reads text and tool_result); its type "
                       "is",
                       *type_of(block) != '\0' ? type_of(block) : "missing");
        }
    }
    if (status == STATUS_OK && (text.length > 0 || result_count == 0)) {
        write_message(converter, "user", NULL, &text);
    }
    string_buffer_deinit(&text);
    return status;
}

static enum status write_call(struct converter *converter, const struct json *block) {
    struct json_writer *writer = &converter->writer;
    const struct json *input = json_get(block, "input");
    const char *id = json_text(json_get(block, "id"), NULL);
    const char *name = json_text(json_get(block, "name"), NULL);
    if (id == NULL || name == NULL) {
        return refuse(converter, STATUS_BAD_FORMAT, " has a tool_use without id or name", NULL);
    }
    struct string_buffer arguments = {0};
    if (input != NULL) {
        (void)json_write_spaced(input, &arguments);
    }
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "id", id);
    json_writer_begin(writer, "function", '{');
    json_writer_text(writer, "name", name);
    json_writer_bytes(writer, "arguments", input == NULL ? "{}" : string_buffer_text(&arguments),
                      input == NULL ? 2 : arguments.length);
    json_writer_end(writer, '}');
    json_writer_end(writer, '}');
    string_buffer_deinit(&arguments);
    return STATUS_OK;
}

static enum status write_calls(struct converter *converter, const struct json *content) {
    struct json_writer *writer = &converter->writer;
    json_writer_begin(writer, "tool_calls", '[');
    for (size_t i = 0; i < json_length(content); i++) {
        if (is_type(json_at(content, i), "tool_use")) {
            TRY(write_call(converter, json_at(content, i)));
        }
    }
    json_writer_end(writer, ']');
    return STATUS_OK;
}

static enum status collect_assistant(struct converter *converter, const struct json *content,
                                     struct string_buffer *reasoning, struct string_buffer *text) {
    for (size_t i = 0; i < json_length(content); i++) {
        const struct json *block = json_at(content, i);
        if (is_type(block, "text") && !has_text(block)) {
            return refuse(converter, STATUS_BAD_FORMAT, no_text, NULL);
        }
        if (is_type(block, "text")) {
            append_member(text, block, "text", "");
        } else if (is_type(block, "thinking")) {
            append_member(reasoning, block, "thinking", "");
        } else if (!is_type(block, "tool_use") && !is_type(block, "redacted_thinking")) {
            return refuse(
                converter, STATUS_UNSUPPORTED,
                " has an assistant's block that is none of text, thinking and tool_use; its type is",
                *type_of(block) != '\0' ? type_of(block) : "missing");
        }
    }
    return STATUS_OK;
}

static enum status convert_assistant(struct converter *converter, const struct json *content, bool is_last) {
    struct json_writer *writer = &converter->writer;
    struct string_buffer reasoning = {0};
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    if (json_kind(content) == JSON_KIND_STRING) {
        append_content(&text, content);
    } else {
        TRY_GOTO(collect_assistant(converter, content, &reasoning, &text));
    }
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "role", "assistant");
    json_writer_bytes(writer, "content", string_buffer_text(&text), text.length);
    json_writer_bytes(writer, "reasoning_content", string_buffer_text(&reasoning), reasoning.length);
    if (json_kind(content) == JSON_KIND_ARRAY) {
        TRY_GOTO(write_calls(converter, content));
    }
    /* An answer that ends the conversation has only begun. */
    json_writer_bool(writer, "wo_eos", is_last);
    json_writer_end(writer, '}');
fail:
    string_buffer_deinit(&reasoning);
    string_buffer_deinit(&text);
    return status;
}

static enum status convert_message(struct converter *converter, const struct json *message, bool is_last) {
    const char *role = json_text(json_get(message, "role"), NULL);
    const struct json *content = json_get(message, "content");
    bool has_content =
        content != NULL && (json_kind(content) == JSON_KIND_STRING || json_kind(content) == JSON_KIND_ARRAY);
    if (role == NULL || !has_content) {
        return refuse(converter, STATUS_BAD_FORMAT,
                      " needs a \"role\" and a \"content\" that is a text or a list of blocks", NULL);
    }
    if (strcmp(role, "assistant") == 0) {
        return convert_assistant(converter, content, is_last);
    }
    bool is_system = strcmp(role, "system") == 0;
    if (strcmp(role, "user") != 0 && !is_system) {
        return refuse(converter, STATUS_BAD_FORMAT, " has a role that is neither user nor assistant:", role);
    }
    if (!is_system && json_kind(content) == JSON_KIND_ARRAY) {
        return convert_user(converter, content);
    }
    struct string_buffer text = {0};
    append_content(&text, content);
    write_message(converter, role, NULL, &text);
    string_buffer_deinit(&text);
    return STATUS_OK;
}

/* A text, or blocks of text. */
static enum status convert_system(struct converter *converter) {
    const struct json *system = request_reader_get(converter->reader, "system");
    if (system == NULL) {
        return STATUS_OK;
    }
    if (json_kind(system) != JSON_KIND_STRING && json_kind(system) != JSON_KIND_ARRAY) {
        return request_reader_fail(converter->reader, "system", STATUS_BAD_FORMAT,
                                   "is neither a text nor a list of text blocks");
    }
    struct string_buffer text = {0};
    if (json_kind(system) == JSON_KIND_STRING) {
        append_content(&text, system);
    }
    for (size_t i = 0; json_kind(system) == JSON_KIND_ARRAY && i < json_length(system); i++) {
        size_t length;
        const char *part = json_text(json_get(json_at(system, i), "text"), &length);
        if (part == NULL) {
            string_buffer_deinit(&text);
            return request_reader_fail(converter->reader, "system", STATUS_BAD_FORMAT,
                                       "holds something that is no text block, at place %zu", i);
        }
        if (strncmp(part, attribution_header, strlen(attribution_header)) != 0) {
            append_member(&text, json_at(system, i), "text", "\n\n");
        }
    }
    write_message(converter, "system", NULL, &text);
    string_buffer_deinit(&text);
    return STATUS_OK;
}

static void write_json_member(struct json_writer *writer, const char *key, const struct json *value) {
    struct string_buffer text = {0};
    (void)json_write(value, &text);
    json_writer_raw(writer, key, string_buffer_text(&text), text.length);
    string_buffer_deinit(&text);
}

static enum status convert_tools(struct converter *converter) {
    struct json_writer *writer = &converter->writer;
    const struct json *tools = NULL;
    TRY(request_reader_array(converter->reader, "tools", &tools));
    json_writer_begin(writer, "tools", '[');
    for (size_t i = 0; i < json_length(tools); i++) {
        const struct json *tool = json_at(tools, i);
        const struct json *schema = json_get(tool, "input_schema");
        const struct json *description = json_get(tool, "description");
        if (json_text(json_get(tool, "name"), NULL) == NULL || schema == NULL) {
            return request_reader_fail(
                converter->reader, "tools", STATUS_BAD_FORMAT,
                "holds something that is no tool of the client's, at place %zu: a tool "
                "has a name and an input_schema",
                i);
        }
        json_writer_begin(writer, NULL, '{');
        json_writer_text(writer, "type", "function");
        json_writer_begin(writer, "function", '{');
        write_json_member(writer, "name", json_get(tool, "name"));
        if (description != NULL && json_kind(description) == JSON_KIND_STRING) {
            write_json_member(writer, "description", description);
        }
        write_json_member(writer, "parameters", schema);
        json_writer_end(writer, '}');
        json_writer_end(writer, '}');
    }
    json_writer_end(writer, ']');
    return STATUS_OK;
}

enum status messages_request_convert(struct request_reader *reader, struct string_buffer *out) {
    struct converter converter = {.reader = reader, .writer = json_writer_on(out)};
    const struct json *messages = NULL;
    TRY(request_reader_array(reader, "messages", &messages));
    if (json_length(messages) == 0) {
        return request_reader_fail(reader, "messages", STATUS_BAD_FORMAT, "needs at least one message");
    }
    json_writer_begin(&converter.writer, NULL, '{');
    json_writer_begin(&converter.writer, "messages", '[');
    TRY(convert_system(&converter));
    for (; converter.message < json_length(messages); converter.message++) {
        TRY(convert_message(&converter, json_at(messages, converter.message),
                            converter.message + 1 == json_length(messages)));
    }
    json_writer_end(&converter.writer, ']');
    TRY(convert_tools(&converter));
    json_writer_end(&converter.writer, '}');
    return string_buffer_check(out);
}
