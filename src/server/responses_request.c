/* Items of an assistant's turn are gathered until an item of somebody else follows. */
#include "server/responses_request.h"

#include <stdio.h>
#include <string.h>

#include "lib/json.h"
#include "text/json_writer.h"

/* The assistant's turn so far. */
struct turn {
    struct string_buffer reasoning, content;
    struct string_buffer calls; /* JSON objects, separated by commas */
    bool is_open;
};

struct converter {
    struct request_reader *reader;
    struct json_writer writer;
    struct turn turn;
    size_t item; /* index, for errors */
};

static enum status refuse(struct converter *converter, enum status status, const char *what,
                          const char *detail) {
    snprintf(converter->reader->parameter, sizeof converter->reader->parameter, "input[%zu]",
             converter->item);
    return error_raise(status, ERROR_HERE, "input[%zu] %s%.100s", converter->item, what, detail);
}

static const char *text_of(const struct json *object, const char *key) {
    return json_text(json_get(object, key), NULL);
}

/* Appends a string, or the texts of a list of parts. False if it is neither, or has a part without text. */
static bool append_parts(struct string_buffer *out, const struct json *content, const char *separator) {
    size_t length = 0;
    const char *text = content == NULL ? NULL : json_text(content, &length);
    if (text != NULL) {
        string_buffer_append(out, text, length);
        return true;
    }
    if (content == NULL || json_kind(content) != JSON_KIND_ARRAY) {
        return content == NULL || json_kind(content) == JSON_KIND_NULL;
    }
    for (size_t i = 0; i < json_length(content); i++) {
        const struct json *part = json_at(content, i);
        const struct json *value = json_get(part, "text");
        value = value != NULL ? value : json_get(part, "refusal");
        text = value == NULL ? NULL : json_text(value, &length);
        if (text == NULL) {
            return false;
        }
        string_buffer_append_text(out, out->length > 0 ? separator : "");
        string_buffer_append(out, text, length);
    }
    return true;
}

static void close_turn(struct converter *converter) {
    struct turn *turn = &converter->turn;
    struct json_writer *writer = &converter->writer;
    if (!turn->is_open) {
        return;
    }
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "role", "assistant");
    json_writer_bytes(writer, "content", string_buffer_text(&turn->content), turn->content.length);
    if (turn->reasoning.length > 0) {
        json_writer_bytes(writer, "reasoning_content", turn->reasoning.data, turn->reasoning.length);
    }
    if (turn->calls.length > 0) {
        json_writer_begin(writer, "tool_calls", '[');
        json_writer_raw(writer, NULL, turn->calls.data, turn->calls.length);
        json_writer_end(writer, ']');
    }
    json_writer_end(writer, '}');
    string_buffer_clear(&turn->reasoning);
    string_buffer_clear(&turn->content);
    string_buffer_clear(&turn->calls);
    turn->is_open = false;
}

static void write_message(struct converter *converter, const char *role, const char *call_id,
                          const struct string_buffer *content) {
    struct json_writer *writer = &converter->writer;
    close_turn(converter);
    json_writer_begin(writer, NULL, '{');
    json_writer_text(writer, "role", role);
    if (call_id != NULL) {
        json_writer_text(writer, "tool_call_id", call_id);
    }
    json_writer_bytes(writer, "content", string_buffer_text(content), content->length);
    json_writer_end(writer, '}');
}

static enum status convert_message(struct converter *converter, const struct json *item) {
    const char *role = text_of(item, "role");
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    if (role == NULL || !append_parts(&text, json_get(item, "content"), "\n\n")) {
        status = refuse(converter, STATUS_BAD_FORMAT,
                        "needs a role, and a content of text parts only; this model reads text", "");
    } else if (strcmp(role, "assistant") == 0) {
        string_buffer_append(&converter->turn.content, string_buffer_text(&text), text.length);
        converter->turn.is_open = true;
    } else if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0) {
        /* Who builds on a model speaks with the system's voice; the chat format has none between. */
        write_message(converter, "system", NULL, &text);
    } else if (strcmp(role, "user") == 0) {
        write_message(converter, "user", NULL, &text);
    } else {
        status = refuse(converter, STATUS_BAD_FORMAT, "has an unknown role: ", role);
    }
    string_buffer_deinit(&text);
    return status;
}

/* Reasoning opens the next turn of an assistant that has called already. */
static enum status convert_reasoning(struct converter *converter, const struct json *item) {
    if (converter->turn.calls.length > 0) {
        close_turn(converter);
    }
    const struct json *content = json_get(item, "content");
    bool has_content = content != NULL && json_length(content) > 0;
    converter->turn.is_open = true;
    if (!append_parts(&converter->turn.reasoning, has_content ? content : json_get(item, "summary"),
                      "\n\n")) {
        return refuse(converter, STATUS_BAD_FORMAT, "has reasoning without a text", "");
    }
    return STATUS_OK;
}

static enum status convert_call(struct converter *converter, const struct json *item) {
    const char *id = text_of(item, "call_id");
    const char *name = text_of(item, "name");
    const char *arguments = text_of(item, "arguments");
    if (id == NULL || name == NULL || arguments == NULL) {
        return refuse(converter, STATUS_BAD_FORMAT, "needs call_id, name and arguments", "");
    }
    struct turn *turn = &converter->turn;
    string_buffer_append_text(&turn->calls, turn->calls.length > 0 ? "," : "");
    struct json_writer writer = json_writer_on(&turn->calls);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "id", id);
    json_writer_begin(&writer, "function", '{');
    json_writer_text(&writer, "name", name);
    json_writer_text(&writer, "arguments", arguments);
    json_writer_end(&writer, '}');
    json_writer_end(&writer, '}');
    turn->is_open = true;
    return STATUS_OK;
}

static enum status convert_output(struct converter *converter, const struct json *item) {
    const char *id = text_of(item, "call_id");
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    if (id == NULL || !append_parts(&text, json_get(item, "output"), "\n\n")) {
        status = refuse(converter, STATUS_BAD_FORMAT, "needs a call_id and an output of text", "");
    } else {
        write_message(converter, "tool", id, &text);
    }
    string_buffer_deinit(&text);
    return status;
}

static enum status convert_item(struct converter *converter, const struct json *item) {
    const char *type = text_of(item, "type");
    type = type == NULL && text_of(item, "role") != NULL ? "message" : type;
    if (type == NULL) {
        return refuse(converter, STATUS_BAD_FORMAT, "has neither a type nor a role", "");
    }
    if (strcmp(type, "message") == 0) {
        return convert_message(converter, item);
    }
    if (strcmp(type, "reasoning") == 0) {
        return convert_reasoning(converter, item);
    }
    if (strcmp(type, "function_call") == 0) {
        return convert_call(converter, item);
    }
    if (strcmp(type, "function_call_output") == 0) {
        return convert_output(converter, item);
    }
    return refuse(converter, STATUS_UNSUPPORTED, "is of a type that is not supported: ", type);
}

static enum status convert_items(struct converter *converter, const struct json *input) {
    for (; converter->item < json_length(input); converter->item++) {
        TRY(convert_item(converter, json_at(input, converter->item)));
    }
    close_turn(converter);
    return STATUS_OK;
}

enum status responses_request_convert_input(struct request_reader *reader, struct string_buffer *out) {
    struct converter converter = {.reader = reader, .writer = json_writer_on(out)};
    const struct json *input = request_reader_get(reader, "input");
    bool is_text = input != NULL && json_kind(input) == JSON_KIND_STRING;
    if (!is_text && (input == NULL || json_kind(input) != JSON_KIND_ARRAY)) {
        return request_reader_fail(reader, "input", STATUS_BAD_FORMAT,
                                   "is neither a text nor a list of items");
    }
    if (!is_text && json_length(input) == 0 && out->length == 0) {
        return request_reader_fail(reader, "input", STATUS_BAD_FORMAT,
                                   "has no items, and nothing stands before it");
    }
    converter.writer.has_item = out->length > 0;
    enum status status = STATUS_OK;
    if (is_text) {
        struct string_buffer text = {0};
        append_parts(&text, input, "");
        write_message(&converter, "user", NULL, &text);
        string_buffer_deinit(&text);
    } else {
        status = convert_items(&converter, input);
    }
    string_buffer_deinit(&converter.turn.reasoning);
    string_buffer_deinit(&converter.turn.content);
    string_buffer_deinit(&converter.turn.calls);
    TRY(status);
    return string_buffer_check(out);
}

static void write_member(struct json_writer *writer, const char *key, const struct json *tool) {
    const struct json *value = json_get(tool, key);
    if (value != NULL && json_kind(value) != JSON_KIND_NULL) {
        struct string_buffer text = {0};
        (void)json_write(value, &text);
        json_writer_raw(writer, key, string_buffer_text(&text), text.length);
        string_buffer_deinit(&text);
    }
}

enum status responses_request_convert_tools(struct request_reader *reader, struct string_buffer *out) {
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    struct json_writer writer = json_writer_on(out);
    const struct json *tools = NULL;
    TRY(request_reader_array(reader, "tools", &tools));
    json_writer_begin(&writer, NULL, '[');
    for (size_t i = 0; i < json_length(tools); i++) {
        const struct json *tool = json_at(tools, i);
        const char *type = text_of(tool, "type");
        if (type == NULL || strcmp(type, "function") != 0 || text_of(tool, "name") == NULL) {
            return request_reader_fail(reader, "tools", STATUS_UNSUPPORTED,
                                       "holds something that is no function with a name, at place %zu; this "
                                       "server runs no tools of its own",
                                       i);
        }
        json_writer_begin(&writer, NULL, '{');
        json_writer_text(&writer, "type", "function");
        json_writer_begin(&writer, "function", '{');
        for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
            write_member(&writer, members[k], tool);
        }
        json_writer_end(&writer, '}');
        json_writer_end(&writer, '}');
    }
    json_writer_end(&writer, ']');
    return string_buffer_check(out);
}
