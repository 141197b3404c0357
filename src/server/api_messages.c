/* POST /v1/messages and /v1/messages/count_tokens, Anthropic's API: the requests. */
#include <string.h>

#include "server/api_internal.h"
#include "server/messages_reply.h"
#include "server/messages_request.h"
#include "server/plain_fields.h"
#include "server/request_chat.h"
#include "server/request_grammar.h"
#include "text/json_writer.h"

static const char messages_path[] = "/v1/messages";

/* Anthropic's own bound of thinking.budget_tokens. */
enum { THINKING_BUDGET_LEAST = 1024 };

/* What a conversation is read into, for an answer or to be counted. */
struct message_prompt {
    struct api *api;
    struct request_reader *reader;
    struct arena *arena;
    struct answer_settings *settings;
    struct token_list *ids;
};

/* A schema that the answer follows, under its present name or its older one. */
static enum status read_format(struct message_prompt *prompt) {
    const struct json *output = NULL;
    const struct json *format = NULL;
    TRY(request_reader_object(prompt->reader, "output_config", &output));
    TRY(request_reader_object(prompt->reader, "output_format", &format));
    const struct json *inner = json_get(output, "format");
    inner = inner != NULL && json_kind(inner) == JSON_KIND_NULL ? NULL : inner;
    const char *name = inner != NULL ? "output_config.format" : "output_format";
    format = inner != NULL ? inner : format;
    if (format == NULL) {
        return STATUS_OK;
    }
    return request_grammar_read_format(prompt->settings, prompt->reader, name, format, true, prompt->arena);
}

/*
 * {"type": "enabled" | "adaptive" | "disabled"}. A budget is a target that the API does not promise to keep:
 * a good one changes nothing here, one that the API does not allow is refused.
 */
static enum status read_thinking_switch(struct request_chat *chat, struct request_reader *reader) {
    static const char *const types[] = {"enabled", "adaptive", "disabled", NULL};
    const char *type = NULL;
    int64_t budget_tokens = 0;
    TRY(request_reader_word(reader, "type", types, &type));
    chat->format.is_thinking = strcmp(type, "disabled") != 0;
    return request_reader_integer(reader, "budget_tokens", THINKING_BUDGET_LEAST, INT32_MAX, &budget_tokens);
}

static enum status read_thinking(struct request_chat *chat, struct request_reader *reader) {
    const struct json *thinking = NULL;
    const struct json *output = NULL;
    TRY(request_reader_object(reader, "thinking", &thinking));
    TRY(request_reader_object(reader, "output_config", &output));
    TRY(request_chat_read_effort(chat, reader, "output_config.", output));
    if (thinking == NULL) {
        return STATUS_OK;
    }
    struct request_reader inner;
    TRY(request_reader_init(&inner, thinking, "thinking."));
    return request_reader_forward(reader, &inner, read_thinking_switch(chat, &inner));
}

/* {"type": "auto" | "any" | "none"}, or "tool" with a name; chat has the word "required" for "any". */
static enum status convert_tool_choice(struct request_reader *reader, struct request_tool_choice *choice) {
    static const char *const types[] = {"auto", "any", "tool", "none", NULL};
    const char *type = NULL;
    TRY(request_reader_word(reader, "type", types, &type));
    choice->word = strcmp(type, "any") == 0 ? "required" : type;
    TRY(request_reader_bool(reader, "disable_parallel_tool_use", &choice->is_serial));
    if (strcmp(type, "tool") == 0) {
        TRY(request_reader_text(reader, "name", &choice->name, NULL));
        if (choice->name == NULL) {
            return request_reader_fail(reader, "name", STATUS_BAD_FORMAT,
                                       "is missing; the type tool needs the name of one of the tools");
        }
    }
    return STATUS_OK;
}

static enum status read_tool_choice(struct message_prompt *prompt, const struct json *tools) {
    const struct json *value = NULL;
    TRY(request_reader_object(prompt->reader, "tool_choice", &value));
    struct request_tool_choice choice = {.word = "auto", .schema_name = "input_schema"};
    if (value != NULL) {
        struct request_reader inner;
        TRY(request_reader_init(&inner, value, "tool_choice."));
        TRY(request_reader_forward(prompt->reader, &inner, convert_tool_choice(&inner, &choice)));
    }
    return request_chat_choose_tools(prompt->settings, prompt->reader, prompt->arena, tools, &choice);
}

static enum status read_prompt(struct message_prompt *prompt) {
    struct request_chat chat;
    struct string_buffer text = {0};
    struct json *converted = NULL;
    struct chat_conversation conversation;
    enum status status = STATUS_OK;
    TRY_GOTO(request_chat_init(&chat, prompt->api));
    TRY_GOTO(read_thinking(&chat, prompt->reader));
    TRY_GOTO(read_format(prompt));
    TRY_GOTO(messages_request_convert(prompt->reader, &text));
    TRY_GOTO(json_parse(text.data, text.length, "the conversation", &converted));
    const struct json *tools = json_get(converted, "tools");
    TRY_GOTO(read_tool_choice(prompt, tools));
    TRY_GOTO(chat_conversation_parse(json_get(converted, "messages"), tools, prompt->arena, &conversation));
    TRY_GOTO(request_chat_encode(&chat, prompt->api->options.tokenizer, &conversation, prompt->settings,
                                 prompt->ids));
fail:
    json_free(&converted);
    string_buffer_deinit(&text);
    return status;
}

/* Who asks changes nothing here. */
static enum status read_metadata(struct request_reader *reader) {
    const struct json *metadata = NULL;
    const char *user = NULL;
    size_t length;
    TRY(request_reader_object(reader, "metadata", &metadata));
    if (metadata == NULL) {
        return STATUS_OK;
    }
    struct request_reader inner;
    TRY(request_reader_init(&inner, metadata, "metadata."));
    return request_reader_forward(reader, &inner, request_reader_text(&inner, "user_id", &user, &length));
}

static enum status read_plain_fields(struct request_reader *reader) {
    static const struct plain_field fields[] = {{"context_management", PLAIN_OBJECT},
                                                {"betas", PLAIN_ANY},
                                                {"speed", PLAIN_TEXT},
                                                {"inference_geo", PLAIN_TEXT},
                                                {"cache_control", PLAIN_OBJECT}};
    static const char *const tiers[] = {"auto", "standard_only", NULL};
    const char *tier = tiers[0];
    TRY(read_metadata(reader));
    TRY(request_reader_word(reader, "service_tier", tiers, &tier));
    return plain_fields_read(reader, fields, sizeof fields / sizeof *fields);
}

static enum status read_request(struct answer *answer) {
    struct answer_settings *settings = &answer->settings;
    struct request_reader *reader = &answer->reader;
    TRY(read_plain_fields(reader));
    TRY(request_reader_refuse(reader, "mcp_servers", "call them yourself, and offer their tools"));
    TRY(request_reader_refuse(reader, "container", "this server runs no code"));
    settings->token_limit = 0;
    TRY(request_reader_integer(reader, "max_tokens", 1, INT32_MAX, &settings->token_limit));
    if (settings->token_limit == 0) {
        return request_reader_fail(reader, "max_tokens", STATUS_BAD_FORMAT, "is missing");
    }
    TRY(answer_settings_read_sampling(settings, reader));
    TRY(answer_settings_read_stops(settings, reader, "stop_sequences", &answer->arena));
    TRY(request_reader_bool(reader, "stream", &settings->is_streaming));
    TRY(messages_reply_prepare(answer));
    TRY(answer_add_prompts(answer, 1));
    struct message_prompt prompt = {answer->api, reader, &answer->arena, settings, &answer->prompts[0].ids};
    return read_prompt(&prompt);
}

void api_handle_messages(struct api *api, const struct api_request *request, struct reply *reply) {
    struct answer *answer = answer_open(api, request, reply, &messages_reply_format, messages_path, "msg_");
    if (answer != NULL) {
        answer_launch(answer, read_request(answer));
    }
}

static enum status count_tokens(struct api *api, const struct api_request *request,
                                struct request_reader *reader, struct arena *arena,
                                struct string_buffer *out) {
    struct json *document = NULL;
    struct token_list ids = {0};
    enum status status = STATUS_OK;
    struct answer_settings settings = answer_settings_default(&api->options, &api->recommended, 0);
    struct message_prompt prompt = {api, reader, arena, &settings, &ids};
    TRY_GOTO(api_parse_body(request, &document));
    TRY_GOTO(request_reader_init(reader, document, ""));
    TRY_GOTO(api_read_model(api, reader));
    TRY_GOTO(read_prompt(&prompt));
    struct json_writer writer = json_writer_on(out);
    json_writer_begin(&writer, NULL, '{');
    json_writer_integer(&writer, "input_tokens", (int64_t)ids.count);
    json_writer_end(&writer, '}');
fail:
    token_list_deinit(&ids);
    json_free(&document);
    return status;
}

void api_handle_count_tokens(struct api *api, const struct api_request *request, struct reply *reply) {
    struct request_reader reader = {.object = NULL};
    struct string_buffer body = {0};
    struct arena arena;
    arena_init(&arena, 1 << 13);
    enum status status = count_tokens(api, request, &reader, &arena, &body);
    if (status == STATUS_OK) {
        api_reply_json(reply, messages_path, &body);
    } else {
        api_reply_failure(reply, messages_path, status, reader.parameter);
    }
    arena_deinit(&arena);
    string_buffer_deinit(&body);
}
