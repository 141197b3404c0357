/* POST /v1/chat/completions: the request. How answers look is server/chat_reply.h. */
#include <stdio.h>
#include <string.h>

#include "server/api_internal.h"
#include "server/chat_reply.h"
#include "server/plain_fields.h"
#include "server/request_chat.h"
#include "server/request_grammar.h"

static enum status read_length(struct answer_settings *settings, struct request_reader *reader) {
    int64_t limit = -1;
    TRY(request_reader_integer(reader, "max_tokens", 1, INT32_MAX, &limit));
    TRY(request_reader_integer(reader, "max_completion_tokens", 1, INT32_MAX, &limit));
    settings->token_limit = limit;
    return STATUS_OK;
}

static enum status read_log_probabilities(struct answer_settings *settings, struct request_reader *reader,
                                          int limit) {
    bool is_wanted = false;
    int64_t count = -1;
    TRY(request_reader_bool(reader, "logprobs", &is_wanted));
    TRY(request_reader_integer(reader, "top_logprobs", 0, limit, &count));
    if (count > 0 && !is_wanted) {
        return request_reader_fail(reader, "top_logprobs", STATUS_BAD_ARGUMENT,
                                   "has a meaning with \"logprobs\": true only");
    }
    settings->log_probability_count = !is_wanted ? -1 : count < 0 ? 0 : count;
    TRY(request_reader_integer(reader, "prompt_logprobs", -1, limit,
                               &settings->prompt_log_probability_count));
    if (settings->prompt_log_probability_count >= 0 && settings->is_streaming) {
        return request_reader_fail(reader, "prompt_logprobs", STATUS_BAD_ARGUMENT,
                                   "is not available in a stream");
    }
    return STATUS_OK;
}

static enum status read_prompt_switches(struct request_chat *chat, struct request_reader *reader) {
    bool is_given = false;
    TRY(request_chat_read_thinking(chat, reader));
    TRY(request_reader_bool(reader, "continue_final_message", &chat->continues_final_message));
    TRY(request_reader_bool(reader, "add_generation_prompt", &is_given));
    TRY(request_reader_bool(reader, "add_generation_prompt", &chat->adds_generation_prompt));
    if (chat->continues_final_message && is_given) {
        return request_reader_fail(reader, "continue_final_message", STATUS_BAD_ARGUMENT,
                                   "and add_generation_prompt cannot both be true");
    }
    return STATUS_OK;
}

/* Text is the only kind of content. */
static enum status read_modalities(struct request_reader *reader) {
    const struct json *list = NULL;
    TRY(request_reader_array(reader, "modalities", &list));
    for (size_t i = 0; list != NULL && i < json_length(list); i++) {
        const char *word = json_text(json_at(list, i), NULL);
        if (word == NULL || strcmp(word, "text") != 0) {
            return request_reader_fail(reader, "modalities",
                                       word == NULL ? STATUS_BAD_FORMAT : STATUS_UNSUPPORTED,
                                       "holds something else than \"text\"; this model writes text only");
        }
    }
    return STATUS_OK;
}

static enum status refuse_chat_fields(struct request_reader *reader) {
    TRY(request_reader_refuse(reader, "documents", "put their text into a message"));
    TRY(request_reader_refuse(reader, "chat_template", "the prompt's form is the model's own"));
    TRY(request_reader_refuse(reader, "audio", "this model writes text only"));
    TRY(request_reader_refuse(reader, "web_search_options", "offer a tool instead"));
    TRY(read_modalities(reader));
    TRY(plain_fields_read_verbosity(reader));
    return request_reader_refuse(reader, "prediction", "drafts come from the model itself");
}

/* With "echo" an answer that continues the last message shows its beginning too. */
static enum status keep_echo(struct answer *answer, const struct chat_conversation *conversation) {
    const struct chat_message *last = &conversation->messages[conversation->message_count - 1];
    if (answer->settings.has_echo && last->role == CHAT_ROLE_ASSISTANT) {
        string_buffer_append(&answer->prompts[0].text, last->content.bytes, last->content.length);
    }
    return string_buffer_check(&answer->prompts[0].text);
}

static enum status read_conversation(struct answer *answer, const struct request_chat *chat,
                                     const struct json *tools) {
    struct chat_conversation conversation;
    const struct json *messages = request_reader_get(&answer->reader, "messages");
    enum status status = chat_conversation_parse(messages, tools, &answer->arena, &conversation);
    if (status == STATUS_OK) {
        TRY(answer_add_prompts(answer, 1));
        TRY(keep_echo(answer, &conversation));
        status = request_chat_encode(chat, answer->api->options.tokenizer, &conversation, &answer->settings,
                                     &answer->prompts[0].ids);
    }
    if (status != STATUS_OK) {
        snprintf(answer->reader.parameter, sizeof answer->reader.parameter, "messages");
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

static enum status read_request(struct answer *answer) {
    struct answer_settings *settings = &answer->settings;
    struct request_reader *reader = &answer->reader;
    struct request_chat chat;
    const struct json *tools = NULL;
    bool includes_reasoning = true;
    TRY(request_chat_init(&chat, answer->api));
    TRY(answer_settings_read(settings, reader, &answer->api->recommended, &answer->arena));
    TRY(refuse_chat_fields(reader));
    TRY(read_length(settings, reader));
    TRY(read_log_probabilities(settings, reader, answer->api->options.log_probability_limit));
    TRY(read_prompt_switches(&chat, reader));
    TRY(request_reader_bool(reader, "include_reasoning", &includes_reasoning));
    settings->is_reasoning_hidden = !includes_reasoning;
    TRY(request_grammar_read(settings, reader, &answer->arena));
    TRY(request_chat_read_tools(settings, reader, &answer->arena, &tools));
    return read_conversation(answer, &chat, tools);
}

void api_handle_chat(struct api *api, const struct api_request *request, struct reply *reply) {
    struct answer *answer =
        answer_open(api, request, reply, &chat_reply_format, "/v1/chat/completions", "chatcmpl-");
    if (answer != NULL) {
        answer_launch(answer, read_request(answer));
    }
}
