/* /v1/responses: the requests, and the responses that are kept. */
#include <stdio.h>
#include <string.h>

#include "server/api_internal.h"
#include "server/plain_fields.h"
#include "server/request_chat.h"
#include "server/request_grammar.h"
#include "server/responses_reply.h"
#include "server/responses_request.h"
#include "server/responses_truncation.h"
#include "text/json_writer.h"

static const char responses_path[] = "/v1/responses";

/* Members of a response that repeat the request, and what they are without. */
static void keep_members(struct answer *answer) {
    static const struct {
        const char *key, *absent;
    } members[] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},
        {"metadata", "{}"},
        {"parallel_tool_calls", "true"},
        {"previous_response_id", "null"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"service_tier", "\"default\""},
        {"store", "true"},
        {"temperature", "null"},
        {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"top_logprobs", "0"},
        {"top_p", "null"},
        {"truncation", "\"disabled\""},
        {"user", "null"},
    };
    struct string_buffer *out = &responses_state_of(answer)->request_members;
    struct json_writer writer = json_writer_on(out);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        /* Whatever tier was asked for, there is one only. */
        bool is_tier = strcmp(members[i].key, "service_tier") == 0;
        const struct json *value = is_tier ? NULL : request_reader_get(&answer->reader, members[i].key);
        struct string_buffer text = {0};
        string_buffer_append_text(&text, value == NULL ? members[i].absent : "");
        if (value != NULL) {
            (void)json_write(value, &text);
        } else if (strcmp(members[i].key, "temperature") == 0 || strcmp(members[i].key, "top_p") == 0) {
            const struct sluice_sampling *sampling = &answer->settings.sampling;
            string_buffer_clear(&text);
            struct json_writer number = json_writer_on(&text);
            json_writer_real(&number, NULL,
                             members[i].key[1] == 'e' ? sampling->temperature : sampling->top_p);
        }
        json_writer_raw(&writer, members[i].key, string_buffer_text(&text), text.length);
        string_buffer_deinit(&text);
    }
}

/*
 * What a response may hold besides. All but log-probabilities concern items that there are none of here, so
 * that nothing is left out.
 */
static enum status read_include(struct request_reader *reader) {
    static const char *const known[] = {
        "reasoning.encrypted_content",   "file_search_call.results",
        "web_search_call.results",       "web_search_call.action.sources",
        "message.input_image.image_url", "computer_call_output.output.image_url",
        "code_interpreter_call.outputs", NULL};
    const struct json *list = NULL;
    TRY(request_reader_array(reader, "include", &list));
    for (size_t i = 0; list != NULL && i < json_length(list); i++) {
        const char *word = json_text(json_at(list, i), NULL);
        size_t k = 0;
        if (word == NULL) {
            return request_reader_fail(reader, "include", STATUS_BAD_FORMAT,
                                       "holds something that is no string");
        }
        while (known[k] != NULL && strcmp(known[k], word) != 0) {
            k++;
        }
        if (strcmp(word, "message.output_text.logprobs") == 0) {
            return request_reader_fail(
                reader, "include", STATUS_UNSUPPORTED,
                "asks for log-probabilities, which are not given here; /v1/chat/completions gives them");
        }
        if (known[k] == NULL) {
            return request_reader_fail(reader, "include", STATUS_UNSUPPORTED,
                                       "asks for \"%.60s\", which is not known", word);
        }
    }
    return STATUS_OK;
}

static enum status read_plain_fields(struct request_reader *reader) {
    static const struct plain_field fields[] = {{"metadata", PLAIN_PAIRS},
                                                {"user", PLAIN_TEXT},
                                                {"service_tier", PLAIN_TIER},
                                                {"stream_options", PLAIN_OBJECT},
                                                {"safety_identifier", PLAIN_TEXT},
                                                {"request_id", PLAIN_TEXT},
                                                {"prompt_cache_key", PLAIN_TEXT},
                                                {"client_metadata", PLAIN_OBJECT},
                                                {"prompt_cache_retention", PLAIN_TEXT}};
    TRY(read_include(reader));
    return plain_fields_read(reader, fields, sizeof fields / sizeof *fields);
}

static enum status refuse_fields(struct request_reader *reader) {
    int64_t top_count = 0;
    int64_t built_in_count = 0;
    TRY(request_reader_refuse(reader, "conversation", "use previous_response_id"));
    TRY(request_reader_refuse(reader, "prompt", "send the text as input"));
    TRY(request_reader_integer(reader, "top_logprobs", 0, SLUICE_LOG_PROBABILITIES_MAX, &top_count));
    if (top_count > 0) {
        return request_reader_fail(reader, "top_logprobs", STATUS_UNSUPPORTED,
                                   "is not supported here; /v1/chat/completions gives log-probabilities");
    }
    /* Counts calls of tools that a server runs; this one runs none, so that any limit is kept. */
    return request_reader_integer(reader, "max_tool_calls", 0, INT32_MAX, &built_in_count);
}

static enum status read_lifetime(struct answer *answer) {
    struct responses_state *state = responses_state_of(answer);
    struct request_reader *reader = &answer->reader;
    state->is_stored = true;
    TRY(request_reader_bool(reader, "store", &state->is_stored));
    TRY(request_reader_bool(reader, "background", &state->is_background));
    TRY(request_reader_bool(reader, "stream", &answer->settings.is_streaming));
    if (state->is_background && (!state->is_stored || answer->settings.is_streaming)) {
        return request_reader_fail(reader, "background", STATUS_UNSUPPORTED,
                                   "works only with \"store\": true and without \"stream\"");
    }
    return STATUS_OK;
}

/* The stored conversation before this request's items. */
static enum status read_history(struct answer *answer) {
    struct request_reader *reader = &answer->reader;
    const char *previous = NULL;
    TRY(request_reader_text(reader, "previous_response_id", &previous, NULL));
    if (previous != NULL && !response_store_get(answer->api->responses, previous, NULL,
                                                &responses_state_of(answer)->conversation)) {
        return request_reader_fail(
            reader, "previous_response_id", STATUS_NOT_FOUND,
            "names the response \"%.100s\", which is not kept here (any more); send the "
            "whole conversation as input",
            previous);
    }
    return responses_request_convert_input(reader, &responses_state_of(answer)->conversation);
}

/* Instructions are this request's only: they stand before the conversation and are not kept with it. */
static enum status write_document(struct answer *answer, struct string_buffer *out) {
    const struct string_buffer *conversation = &responses_state_of(answer)->conversation;
    const char *instructions = NULL;
    size_t length = 0;
    struct json_writer writer = json_writer_on(out);
    TRY(request_reader_text(&answer->reader, "instructions", &instructions, &length));
    json_writer_begin(&writer, NULL, '{');
    json_writer_begin(&writer, "messages", '[');
    if (instructions != NULL) {
        json_writer_begin(&writer, NULL, '{');
        json_writer_text(&writer, "role", "system");
        json_writer_bytes(&writer, "content", instructions, length);
        json_writer_end(&writer, '}');
    }
    if (conversation->length > 0) {
        json_writer_raw(&writer, NULL, conversation->data, conversation->length);
    }
    json_writer_end(&writer, ']');
    string_buffer_append_text(out, ",\"tools\":");
    TRY(responses_request_convert_tools(&answer->reader, out));
    json_writer_end(&writer, '}');
    return string_buffer_check(out);
}

static enum status read_tool_choice(struct answer *answer, const struct json *tools) {
    struct request_reader *reader = &answer->reader;
    bool is_parallel = true;
    TRY(request_reader_bool(reader, "parallel_tool_calls", &is_parallel));
    const struct json *value = request_reader_get(reader, "tool_choice");
    struct request_tool_choice choice = {
        .word = "auto", .is_serial = !is_parallel, .schema_name = "parameters"};
    if (value != NULL) {
        choice.word = json_text(value, NULL);
        choice.name = json_text(json_get(value, "name"), NULL);
    }
    return request_chat_choose_tools(&answer->settings, reader, &answer->arena, tools, &choice);
}

static enum status encode(struct answer *answer, const struct request_chat *chat,
                          struct chat_conversation *conversation) {
    static const char *const words[] = {"auto", "disabled", NULL};
    const char *truncation = "disabled";
    TRY(request_reader_word(&answer->reader, "truncation", words, &truncation));
    if (strcmp(truncation, "auto") == 0) {
        return responses_truncation_encode(answer, chat, conversation);
    }
    return request_chat_encode(chat, answer->api->options.tokenizer, conversation, &answer->settings,
                               &answer->prompts[0].ids);
}

static enum status read_conversation(struct answer *answer, const struct request_chat *chat) {
    struct string_buffer text = {0};
    struct json *converted = NULL;
    struct chat_conversation conversation;
    enum status status = STATUS_OK;
    TRY_GOTO(read_history(answer));
    TRY_GOTO(write_document(answer, &text));
    TRY_GOTO(json_parse(text.data, text.length, "the conversation", &converted));
    const struct json *tools = json_get(converted, "tools");
    TRY_GOTO(read_tool_choice(answer, tools));
    TRY_GOTO(chat_conversation_parse(json_get(converted, "messages"), tools, &answer->arena, &conversation));
    TRY_GOTO(answer_add_prompts(answer, 1));
    TRY_GOTO(encode(answer, chat, &conversation));
fail:
    json_free(&converted);
    string_buffer_deinit(&text);
    return status;
}

static enum status read_form(struct answer *answer, struct request_chat *chat) {
    const struct json *reasoning = NULL;
    const struct json *text = NULL;
    TRY(request_reader_object(&answer->reader, "reasoning", &reasoning));
    TRY(request_reader_object(&answer->reader, "text", &text));
    TRY(request_chat_read_effort(chat, &answer->reader, "reasoning.", reasoning));
    if (text != NULL) {
        struct request_reader inner;
        TRY(request_reader_init(&inner, text, "text."));
        TRY(request_reader_forward(&answer->reader, &inner, plain_fields_read_verbosity(&inner)));
    }
    const struct json *format = json_get(text, "format");
    if (format == NULL || json_kind(format) == JSON_KIND_NULL) {
        return STATUS_OK;
    }
    return request_grammar_read_format(&answer->settings, &answer->reader, "text.format", format, true,
                                       &answer->arena);
}

static enum status read_request(struct answer *answer) {
    struct answer_settings *settings = &answer->settings;
    struct request_reader *reader = &answer->reader;
    struct request_chat chat;
    char id[API_ID_BYTES];
    api_random_id(id);
    answer->id = arena_format(&answer->arena, "resp_%s", id);
    CHECK_MEMORY(answer->id);
    TRY(responses_reply_prepare(answer));
    TRY(request_chat_init(&chat, answer->api));
    TRY(refuse_fields(reader));
    TRY(read_plain_fields(reader));
    TRY(read_lifetime(answer));
    TRY(request_reader_integer(reader, "max_output_tokens", 1, INT32_MAX, &settings->token_limit));
    TRY(answer_settings_read_sampling(settings, reader));
    TRY(read_form(answer, &chat));
    keep_members(answer);
    return read_conversation(answer, &chat);
}

void api_handle_responses(struct api *api, const struct api_request *request, struct reply *reply) {
    struct answer *answer =
        answer_open(api, request, reply, &responses_reply_format, responses_path, "resp_");
    if (answer != NULL) {
        answer_launch(answer, read_request(answer));
    }
}

static void reply_not_found(struct reply *reply) {
    api_reply_error(reply, responses_path, 404, "there is no such response (any more)", "response_id");
}

void api_handle_response_get(struct api *api, const struct api_request *request, struct reply *reply) {
    struct string_buffer body = {0};
    const char *is_streaming = request->query(request, "stream");
    if (is_streaming != NULL && strcmp(is_streaming, "true") == 0) {
        api_reply_error(reply, responses_path, 400, "a kept response is given as a whole, not as a stream",
                        "stream");
    } else if (response_store_get(api->responses, request->path_id, &body, NULL)) {
        api_reply_json(reply, responses_path, &body);
    } else {
        reply_not_found(reply);
    }
    string_buffer_deinit(&body);
}

/* The running answer of a response; NULL if it is over. The mutex is held. */
static struct answer *find_running(struct api *api, const char *id) {
    for (struct answer *answer = api->answers; answer != NULL; answer = answer->next) {
        if (answer->format == &responses_reply_format && strcmp(answer->id, id) == 0) {
            return answer;
        }
    }
    return NULL;
}

/* What is kept says "in_progress" until the task has looked; the client is told what will come of it. */
static void say_cancelled(struct string_buffer *body) {
    static const char before[] = "\"status\":\"in_progress\"";
    static const char after[] = "\"status\":\"cancelled\"";
    const char *place = strstr(string_buffer_text(body), before);
    struct string_buffer changed = {0};
    if (place == NULL) {
        return;
    }
    string_buffer_append(&changed, body->data, (size_t)(place - body->data));
    string_buffer_append_text(&changed, after);
    string_buffer_append_text(&changed, place + strlen(before));
    string_buffer_deinit(body);
    *body = changed;
}

void api_handle_response_cancel(struct api *api, const struct api_request *request, struct reply *reply) {
    struct string_buffer body = {0};
    pthread_mutex_lock(&api->mutex);
    struct answer *answer = find_running(api, request->path_id);
    if (answer != NULL) {
        answer_cancel(answer);
    }
    pthread_mutex_unlock(&api->mutex);
    if (response_store_get(api->responses, request->path_id, &body, NULL)) {
        say_cancelled(&body);
        api_reply_json(reply, responses_path, &body);
    } else {
        reply_not_found(reply);
    }
    string_buffer_deinit(&body);
}

void api_handle_response_delete(struct api *api, const struct api_request *request, struct reply *reply) {
    pthread_mutex_lock(&api->mutex);
    bool is_running = find_running(api, request->path_id) != NULL;
    pthread_mutex_unlock(&api->mutex);
    if (is_running) {
        api_reply_error(reply, responses_path, 400, "the response is still being made; cancel it first",
                        "response_id");
    } else if (!response_store_delete(api->responses, request->path_id)) {
        reply_not_found(reply);
    } else {
        struct string_buffer body = {0};
        struct json_writer writer = json_writer_on(&body);
        json_writer_begin(&writer, NULL, '{');
        json_writer_text(&writer, "id", request->path_id);
        json_writer_text(&writer, "object", "response");
        json_writer_bool(&writer, "deleted", true);
        json_writer_end(&writer, '}');
        api_reply_json(reply, responses_path, &body);
        string_buffer_deinit(&body);
    }
}
