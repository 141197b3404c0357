/* POST /tokenize and /detokenize, GET /tokenizer_info. */
#include <string.h>

#include "server/api_internal.h"
#include "server/request_chat.h"
#include "text/control_token.h"
#include "text/json_writer.h"

static const char tokenize_path[] = "/tokenize";

/* A request that is answered at once. */
struct call {
    struct api *api;
    struct json *document;
    struct request_reader reader;
    struct arena arena;
    struct token_list ids;
    struct string_buffer body;
};

static enum status open_call(struct call *call, struct api *api, const struct api_request *request) {
    *call = (struct call){.api = api};
    arena_init(&call->arena, 1 << 13);
    TRY(api_parse_body(request, &call->document));
    TRY(request_reader_init(&call->reader, call->document, ""));
    return api_read_model(api, &call->reader);
}

static void close_call(struct call *call, enum status status, const char *path, struct reply *reply) {
    if (status == STATUS_OK) {
        api_count_unknown_fields(call->api, &call->reader);
        api_reply_json(reply, path, &call->body);
    } else {
        api_reply_failure(reply, path, status, call->reader.parameter);
    }
    json_free(&call->document);
    arena_deinit(&call->arena);
    token_list_deinit(&call->ids);
    string_buffer_deinit(&call->body);
}

static enum status encode_messages(struct call *call, const struct json *messages) {
    struct request_chat chat = call->api->chat_defaults;
    struct answer_settings settings = {.choice_count = 1};
    struct chat_conversation conversation;
    const struct json *tools = NULL;
    TRY(request_chat_read_thinking(&chat, &call->reader));
    TRY(request_reader_bool(&call->reader, "continue_final_message", &chat.continues_final_message));
    TRY(request_reader_bool(&call->reader, "add_generation_prompt", &chat.adds_generation_prompt));
    TRY(request_reader_array(&call->reader, "tools", &tools));
    TRY(chat_conversation_parse(messages, tools, &call->arena, &conversation));
    return request_chat_encode(&chat, call->api->options.tokenizer, &conversation, &settings, &call->ids);
}

static void write_token_texts(struct json_writer *writer, const struct call *call) {
    json_writer_begin(writer, "token_strs", '[');
    for (size_t i = 0; i < call->ids.count; i++) {
        size_t length = 0;
        const char *bytes = tokenizer_token_bytes(call->api->options.tokenizer, call->ids.ids[i], &length);
        json_writer_bytes(writer, NULL, bytes == NULL ? "" : bytes, bytes == NULL ? 0 : length);
    }
    json_writer_end(writer, ']');
}

static enum status tokenize(struct call *call) {
    const struct json *messages = request_reader_get(&call->reader, "messages");
    const char *text = NULL;
    size_t length = 0;
    bool has_texts = false;
    bool adds_special = true;
    /* No mark is ever added: prompts carry theirs. */
    TRY(request_reader_bool(&call->reader, "add_special_tokens", &adds_special));
    TRY(request_reader_bool(&call->reader, "return_token_strs", &has_texts));
    TRY(request_reader_text(&call->reader, "prompt", &text, &length));
    if (messages != NULL) {
        TRY(encode_messages(call, messages));
    } else if (text != NULL) {
        struct tokenizer_encode_options options = {.match_added_tokens = true};
        TRY(tokenizer_encode(call->api->options.tokenizer, text, length, &options, &call->ids));
    } else {
        return request_reader_fail(&call->reader, "prompt", STATUS_BAD_FORMAT,
                                   "is missing; send a text as prompt, or messages");
    }
    struct service *service = call->api->options.service;
    struct json_writer writer = json_writer_on(&call->body);
    json_writer_begin(&writer, NULL, '{');
    json_writer_integer(&writer, "count", (int64_t)call->ids.count);
    json_writer_integer(&writer, "max_model_len", service->kind->facts(service).context_tokens);
    json_writer_ids(&writer, "tokens", call->ids.ids, call->ids.count);
    if (has_texts) {
        write_token_texts(&writer, call);
    } else {
        json_writer_null(&writer, "token_strs");
    }
    json_writer_end(&writer, '}');
    return STATUS_OK;
}

void api_handle_tokenize(struct api *api, const struct api_request *request, struct reply *reply) {
    struct call call;
    enum status status = open_call(&call, api, request);
    if (status == STATUS_OK) {
        status = tokenize(&call);
    }
    close_call(&call, status, tokenize_path, reply);
}

static enum status detokenize(struct call *call) {
    const struct json *list = NULL;
    TRY(request_reader_array(&call->reader, "tokens", &list));
    if (list == NULL) {
        return request_reader_fail(&call->reader, "tokens", STATUS_BAD_FORMAT,
                                   "is missing; send a list of token ids");
    }
    for (size_t i = 0; i < json_length(list); i++) {
        int64_t id = json_int64(json_at(list, i));
        if (json_kind(json_at(list, i)) != JSON_KIND_INTEGER || id < 0 || id > INT32_MAX) {
            return request_reader_fail(&call->reader, "tokens", STATUS_BAD_FORMAT,
                                       "holds something that is no token id, at place %zu", i);
        }
        TRY(token_list_append(&call->ids, (int32_t)id));
    }
    struct string_buffer text = {0};
    enum status status =
        tokenizer_decode(call->api->options.tokenizer, call->ids.ids, call->ids.count, false, &text);
    if (status == STATUS_OK) {
        struct json_writer writer = json_writer_on(&call->body);
        json_writer_begin(&writer, NULL, '{');
        json_writer_bytes(&writer, "prompt", string_buffer_text(&text), text.length);
        json_writer_end(&writer, '}');
    }
    string_buffer_deinit(&text);
    return status;
}

void api_handle_detokenize(struct api *api, const struct api_request *request, struct reply *reply) {
    struct call call;
    enum status status = open_call(&call, api, request);
    if (status == STATUS_OK) {
        status = detokenize(&call);
    }
    close_call(&call, status, tokenize_path, reply);
}

void api_handle_tokenizer_info(struct api *api, const struct api_request *request, struct reply *reply) {
    if (!api->options.has_tokenizer_info) {
        api_reply_error(reply, request->path, 404,
                        "this server was started without --enable-tokenizer-info-endpoint", NULL);
        return;
    }
    struct string_buffer body = {0};
    struct json_writer writer = json_writer_on(&body);
    struct service *service = api->options.service;
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "tokenizer_class", "PreTrainedTokenizerFast");
    json_writer_text(&writer, "bos_token", control_token_text(CONTROL_TOKEN_BOS));
    json_writer_text(&writer, "eos_token", control_token_text(CONTROL_TOKEN_EOS));
    json_writer_text(&writer, "pad_token", control_token_text(CONTROL_TOKEN_EOS));
    json_writer_bool(&writer, "add_bos_token", false);
    json_writer_bool(&writer, "add_eos_token", false);
    json_writer_integer(&writer, "vocab_size", tokenizer_vocabulary_size(api->options.tokenizer));
    json_writer_integer(&writer, "model_max_length", service->kind->facts(service).context_tokens);
    json_writer_end(&writer, '}');
    api_reply_json(reply, request->path, &body);
    string_buffer_deinit(&body);
}
