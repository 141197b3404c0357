/* Switches to the encoder's options, tools to the grammar of calls. */
#include "server/request_chat.h"

#include <string.h>

#include "server/api_internal.h"
#include "server/request_grammar.h"
#include "text/json_writer.h"

/* Arguments of a chat template that this model's has; others are another model's business. */
static enum status read_template_arguments(struct request_chat *chat, struct request_reader *reader,
                                           const struct json *object) {
    struct request_reader inner;
    TRY(request_reader_init(&inner, object, "chat_template_kwargs."));
    const char *effort = NULL;
    enum status status = request_reader_text(&inner, "reasoning_effort", &effort, NULL);
    if (effort != NULL) {
        chat_encode_options_set_effort(&chat->format, effort);
    }
    if (status == STATUS_OK) {
        status = request_reader_bool(&inner, "enable_thinking", &chat->format.is_thinking);
    }
    if (status == STATUS_OK) {
        status = request_reader_bool(&inner, "thinking", &chat->format.is_thinking);
    }
    if (status == STATUS_OK) {
        status = request_reader_bool(&inner, "drop_thinking", &chat->format.is_reasoning_dropped);
    }
    if (status != STATUS_OK) {
        memcpy(reader->parameter, inner.parameter, sizeof reader->parameter);
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

enum status request_chat_init(struct request_chat *chat, const struct api *api) {
    *chat = (struct request_chat){.format = chat_encode_options_default(), .adds_generation_prompt = true};
    chat->format.release = CHAT_RELEASE_PREVIEW;
    const char *defaults = api->options.default_chat_template_kwargs;
    if (defaults == NULL) {
        return STATUS_OK;
    }
    struct json *object = NULL;
    struct request_reader unused = {.object = NULL};
    TRY(json_parse(defaults, strlen(defaults), "--default-chat-template-kwargs", &object));
    enum status status = read_template_arguments(chat, &unused, object);
    json_free(&object);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status request_chat_read_thinking(struct request_chat *chat, struct request_reader *reader) {
    const char *effort = NULL;
    const struct json *arguments = NULL;
    TRY(request_reader_text(reader, "reasoning_effort", &effort, NULL));
    if (effort != NULL) {
        chat_encode_options_set_effort(&chat->format, effort);
    }
    TRY(request_reader_object(reader, "chat_template_kwargs", &arguments));
    return arguments == NULL ? STATUS_OK : read_template_arguments(chat, reader, arguments);
}

bool request_chat_has_tool(const struct json *tools, const char *name) {
    for (size_t i = 0; i < json_length(tools); i++) {
        const char *other = json_text(json_get(json_get(json_at(tools, i), "function"), "name"), NULL);
        if (other != NULL && strcmp(other, name) == 0) {
            return true;
        }
    }
    return false;
}

/* {"type": "function", "function": {"name": ...}} */
static enum status read_named_choice(struct request_reader *reader, const struct json *tools,
                                     const struct json *choice, struct string_buffer *out) {
    const char *name = json_text(json_get(json_get(choice, "function"), "name"), NULL);
    if (name == NULL) {
        return request_reader_fail(
            reader, "tool_choice", STATUS_BAD_FORMAT,
            "is none of none, auto, required and {\"type\": \"function\", \"function\": "
            "{\"name\": ...}}");
    }
    if (!request_chat_has_tool(tools, name)) {
        return request_reader_fail(reader, "tool_choice", STATUS_BAD_ARGUMENT,
                                   "names the function \"%.100s\", which is not among the tools", name);
    }
    struct json_writer writer = json_writer_on(out);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "name", name);
    json_writer_end(&writer, '}');
    return STATUS_OK;
}

/* Appends the choice as JSON; nothing for "none". */
static enum status read_tool_choice(struct request_reader *reader, const struct json *tools,
                                    struct string_buffer *out) {
    const struct json *choice = request_reader_get(reader, "tool_choice");
    const char *word = choice != NULL ? json_text(choice, NULL) : "auto";
    bool has_tools = json_length(tools) > 0;
    if (word != NULL && (strcmp(word, "none") == 0 || (!has_tools && strcmp(word, "auto") == 0))) {
        return STATUS_OK;
    }
    if (!has_tools) {
        return request_reader_fail(reader, "tool_choice", STATUS_BAD_ARGUMENT,
                                   "asks for a tool call, but the request has no tools");
    }
    if (word == NULL) {
        return read_named_choice(reader, tools, choice, out);
    }
    if (strcmp(word, "auto") != 0 && strcmp(word, "required") != 0) {
        return request_reader_fail(reader, "tool_choice", STATUS_BAD_FORMAT,
                                   "is \"%.60s\"; use none, auto, required or the name of a function", word);
    }
    string_buffer_append_format(out, "\"%s\"", word);
    return STATUS_OK;
}

enum status request_chat_read_tools(struct answer_settings *settings, struct request_reader *reader,
                                    struct arena *arena, const struct json **tools) {
    bool is_parallel = true;
    struct string_buffer choice = {0};
    enum status status = STATUS_OK;
    *tools = NULL;
    TRY_GOTO(request_reader_refuse(reader, "functions", "use tools"));
    TRY_GOTO(request_reader_refuse(reader, "function_call", "use tool_choice"));
    TRY_GOTO(request_reader_array(reader, "tools", tools));
    TRY_GOTO(request_reader_bool(reader, "parallel_tool_calls", &is_parallel));
    TRY_GOTO(read_tool_choice(reader, *tools, &choice));
    settings->are_tools_enabled = choice.length > 0;
    if (settings->are_tools_enabled) {
        TRY_GOTO(request_grammar_set_tools(settings, reader, *tools, string_buffer_text(&choice), is_parallel,
                                           arena));
    }
fail:
    string_buffer_deinit(&choice);
    return status;
}

/* Drops the header of the answer's turn, which the template always writes behind a user's. */
static void drop_generation_prompt(struct token_list *ids, const struct tokenizer *tokenizer) {
    static const enum control_token marks[] = {CONTROL_TOKEN_THINK_START, CONTROL_TOKEN_THINK_END,
                                               CONTROL_TOKEN_ASSISTANT};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int32_t id = tokenizer_added_token_id(tokenizer, control_token_text(marks[i]));
        if (ids->count > 0 && ids->ids[ids->count - 1] == id) {
            ids->count--;
        }
    }
}

enum status request_chat_encode(const struct request_chat *chat, const struct tokenizer *tokenizer,
                                struct chat_conversation *conversation, struct answer_settings *settings,
                                struct token_list *ids) {
    enum status status = STATUS_OK;
    struct chat_prompt prompt = {.segment_count = 0};
    struct chat_message *last = &conversation->messages[conversation->message_count - 1];
    bool is_assistant_last = last->role == CHAT_ROLE_ASSISTANT;
    if (chat->continues_final_message) {
        CHECK(is_assistant_last, STATUS_BAD_ARGUMENT,
              "continue_final_message needs a last message whose role is assistant");
        last->is_without_eos = true;
    }
    TRY_GOTO(chat_encode_v4(conversation, &chat->format, &prompt));
    TRY_GOTO(chat_prompt_encode(&prompt, tokenizer, CHAT_MATCHING_TEMPLATE_ONLY, ids));
    settings->is_chat = true;
    settings->starts_in_reasoning = chat_prompt_is_reasoning_open(&prompt);
    if (!chat->adds_generation_prompt && !is_assistant_last) {
        drop_generation_prompt(ids, tokenizer);
        settings->starts_in_reasoning = false;
    }
fail:
    chat_prompt_deinit(&prompt);
    return status;
}
