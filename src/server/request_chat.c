/* Switches to the encoder's options, tools to the grammar of calls. */
#include "server/request_chat.h"

#include <string.h>

#include "server/api_internal.h"
#include "server/request_grammar.h"
#include "text/json_writer.h"

/* `field` may be absent. */
static enum status read_effort_field(struct request_chat *chat, struct request_reader *reader,
                                     const char *field) {
    const char *effort = NULL;
    TRY(request_reader_text(reader, field, &effort, NULL));
    if (effort != NULL && !chat_encode_options_set_effort(&chat->format, effort)) {
        return request_reader_fail(reader, field, STATUS_UNSUPPORTED,
                                   "is \"%.60s\"; use none, minimal, low, medium, high, xhigh or max",
                                   effort);
    }
    return STATUS_OK;
}

enum status request_chat_read_effort(struct request_chat *chat, struct request_reader *reader,
                                     const char *place, const struct json *object) {
    if (object == NULL) {
        return STATUS_OK;
    }
    struct request_reader inner;
    TRY(request_reader_init(&inner, object, place));
    return request_reader_forward(reader, &inner, read_effort_field(chat, &inner, "effort"));
}

/* Arguments of a chat template that this model's has. */
static enum status read_template_arguments(struct request_chat *chat, struct request_reader *arguments) {
    TRY(read_effort_field(chat, arguments, "reasoning_effort"));
    TRY(request_reader_bool(arguments, "enable_thinking", &chat->format.is_thinking));
    TRY(request_reader_bool(arguments, "thinking", &chat->format.is_thinking));
    return request_reader_bool(arguments, "drop_thinking", &chat->format.is_reasoning_dropped);
}

static enum status read_default_arguments(struct request_chat *chat, const struct json *object) {
    struct request_reader arguments;
    CHECK(json_kind(object) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT,
          "--default-chat-template-kwargs takes a JSON object such as {\"thinking\": false}");
    TRY(request_reader_init(&arguments, object, "--default-chat-template-kwargs: "));
    TRY(read_template_arguments(chat, &arguments));
    return request_reader_refuse_unknown(
        &arguments, "this model has thinking, enable_thinking, reasoning_effort and drop_thinking");
}

enum status request_chat_read_defaults(struct request_chat *chat, const char *defaults) {
    *chat = (struct request_chat){.format = chat_encode_options_default(), .adds_generation_prompt = true};
    chat->format.release = CHAT_RELEASE_PREVIEW;
    if (defaults == NULL) {
        return STATUS_OK;
    }
    struct json *object = NULL;
    TRY(json_parse(defaults, strlen(defaults), "--default-chat-template-kwargs", &object));
    enum status status = read_default_arguments(chat, object);
    json_free(&object);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status request_chat_read_thinking(struct request_chat *chat, struct request_reader *reader) {
    const struct json *arguments = NULL;
    TRY(read_effort_field(chat, reader, "reasoning_effort"));
    TRY(request_reader_object(reader, "chat_template_kwargs", &arguments));
    if (arguments == NULL) {
        return STATUS_OK;
    }
    /* Those of other models' templates are another model's business. */
    struct request_reader inner;
    TRY(request_reader_init(&inner, arguments, "chat_template_kwargs."));
    return request_reader_forward(reader, &inner, read_template_arguments(chat, &inner));
}

static bool has_tool(const struct json *tools, const char *name) {
    for (size_t i = 0; i < json_length(tools); i++) {
        const char *other = json_text(json_get(json_get(json_at(tools, i), "function"), "name"), NULL);
        if (other != NULL && strcmp(other, name) == 0) {
            return true;
        }
    }
    return false;
}

static enum status check_choice(struct request_reader *reader, const struct json *tools,
                                const struct request_tool_choice *choice) {
    static const char field[] = "tool_choice";
    bool is_word = choice->name == NULL && choice->word != NULL;
    bool is_optional = is_word && (strcmp(choice->word, "none") == 0 || strcmp(choice->word, "auto") == 0);
    if (is_word ? !is_optional && strcmp(choice->word, "required") != 0 : choice->name == NULL) {
        return request_reader_fail(reader, field, STATUS_BAD_FORMAT,
                                   "is%s%.60s%s; use none, auto, required or the name of a function",
                                   is_word ? " \"" : " malformed", is_word ? choice->word : "",
                                   is_word ? "\"" : "");
    }
    if (json_length(tools) == 0 && !is_optional) {
        return request_reader_fail(reader, field, STATUS_BAD_ARGUMENT,
                                   "asks for a tool call, but the request has no tools");
    }
    if (choice->name != NULL && !has_tool(tools, choice->name)) {
        return request_reader_fail(reader, field, STATUS_BAD_ARGUMENT,
                                   "names \"%.100s\", which is not among the tools", choice->name);
    }
    return STATUS_OK;
}

enum status request_chat_choose_tools(struct answer_settings *settings, struct request_reader *reader,
                                      struct arena *arena, const struct json *tools,
                                      const struct request_tool_choice *choice) {
    TRY(check_choice(reader, tools, choice));
    bool is_none = choice->name == NULL && strcmp(choice->word, "none") == 0;
    settings->are_tools_enabled = json_length(tools) > 0 && !is_none;
    if (!settings->are_tools_enabled) {
        return STATUS_OK;
    }
    struct string_buffer text = {0};
    struct json_writer writer = json_writer_on(&text);
    if (choice->name != NULL) {
        json_writer_begin(&writer, NULL, '{');
        json_writer_text(&writer, "type", "function");
        json_writer_begin(&writer, "function", '{');
        json_writer_text(&writer, "name", choice->name);
        json_writer_end(&writer, '}');
        json_writer_end(&writer, '}');
    } else {
        json_writer_text(&writer, NULL, choice->word);
    }
    enum status status = string_buffer_check(&text);
    if (status == STATUS_OK) {
        status = request_grammar_set_tools(settings, reader, tools, choice->schema_name, text.data,
                                           !choice->is_serial, arena);
    }
    string_buffer_deinit(&text);
    return status;
}

enum status request_chat_read_tools(struct answer_settings *settings, struct request_reader *reader,
                                    struct arena *arena, const struct json **tools) {
    bool is_parallel = true;
    *tools = NULL;
    TRY(request_reader_refuse(reader, "functions", "use tools"));
    TRY(request_reader_refuse(reader, "function_call", "use tool_choice"));
    TRY(request_reader_array(reader, "tools", tools));
    TRY(request_reader_bool(reader, "parallel_tool_calls", &is_parallel));
    const struct json *value = request_reader_get(reader, "tool_choice");
    struct request_tool_choice choice = {.word = "auto", .is_serial = !is_parallel};
    if (value != NULL) {
        choice.word = json_text(value, NULL);
        choice.name = json_text(json_get(json_get(value, "function"), "name"), NULL);
    }
    return request_chat_choose_tools(settings, reader, arena, *tools, &choice);
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
