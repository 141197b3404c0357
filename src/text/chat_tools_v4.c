/* Texts are the official ones to the byte; test_chat_encoder compares them with an independent copy. */
#include "text/chat_tools_v4.h"

#include <string.h>

#include "lib/json.h"

static const char schemas_head[] =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "
    "\"<｜DSML｜tool_calls>\" block like the following:\n\n"
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types (numbers, "
    "booleans, arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside "
    "<think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";

static const char schemas_tail[] = "\nYou MUST strictly follow the above defined tool name and parameter "
                                   "schemas to invoke tool calls.\n";

void chat_tools_append_schemas(struct chat_prompt *prompt, const struct chat_tool *tools, size_t tool_count) {
    chat_prompt_append_template(prompt, schemas_head);
    for (size_t i = 0; i < tool_count; i++) {
        chat_prompt_append_plain(prompt, tools[i].function_json.bytes, tools[i].function_json.length);
        chat_prompt_append_plain(prompt, "\n", 1);
    }
    chat_prompt_append_template(prompt, schemas_tail);
}

static void append_parameter(struct chat_prompt *prompt, const char *key, size_t key_length, bool is_string,
                             const char *value, size_t value_length) {
    chat_prompt_append_template(prompt, "<｜DSML｜parameter name=\"");
    chat_prompt_append_plain(prompt, key, key_length);
    chat_prompt_append_template(prompt, is_string ? "\" string=\"true\">" : "\" string=\"false\">");
    chat_prompt_append_plain(prompt, value, value_length);
    chat_prompt_append_template(prompt, "</｜DSML｜parameter>");
}

static enum status append_member(struct chat_prompt *prompt, const struct json_member *member) {
    size_t key_length, value_length;
    const char *key = json_member_key(member, &key_length);
    const struct json *value = json_member_value(member);
    const char *string = json_text(value, &value_length);
    if (string != NULL) {
        append_parameter(prompt, key, key_length, true, string, value_length);
        return STATUS_OK;
    }
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    TRY_GOTO(json_write_spaced(value, &text));
    append_parameter(prompt, key, key_length, false, text.data, text.length);
fail:
    string_buffer_deinit(&text);
    return status;
}

/* The parameters, joined by newlines. */
static enum status append_arguments(struct chat_prompt *prompt, const struct chat_text *arguments) {
    struct json *document = NULL;
    enum status status = json_parse(arguments->bytes, arguments->length, "arguments", &document);
    if (status == STATUS_OUT_OF_MEMORY) {
        return error_forward(status, ERROR_HERE);
    }
    status = STATUS_OK;
    if (document == NULL || json_kind(document) != JSON_KIND_OBJECT) {
        static const char key[] = "arguments";
        append_parameter(prompt, key, sizeof key - 1, true, arguments->bytes, arguments->length);
        goto fail;
    }
    const struct json_member *first = json_first(document);
    for (const struct json_member *member = first; member != NULL; member = json_next(document, member)) {
        if (member != first) {
            chat_prompt_append_plain(prompt, "\n", 1);
        }
        TRY_GOTO(append_member(prompt, member));
    }
fail:
    json_free(&document);
    return status;
}

enum status chat_tools_append_calls(struct chat_prompt *prompt, const struct chat_tool_call *calls,
                                    size_t call_count) {
    chat_prompt_append_template(prompt, "\n\n<｜DSML｜tool_calls>\n");
    for (size_t i = 0; i < call_count; i++) {
        chat_prompt_append_template(prompt, "<｜DSML｜invoke name=\"");
        chat_prompt_append_plain(prompt, calls[i].name.bytes, calls[i].name.length);
        chat_prompt_append_template(prompt, "\">\n");
        TRY(append_arguments(prompt, &calls[i].arguments));
        chat_prompt_append_template(prompt, "\n</｜DSML｜invoke>\n");
    }
    chat_prompt_append_template(prompt, "</｜DSML｜tool_calls>");
    return STATUS_OK;
}
