/* POST /v1/completions: the request. How answers look is server/completion_reply.h. */
#include "server/api_internal.h"
#include "server/completion_reply.h"
#include "server/request_grammar.h"

enum { PROMPTS_MAX = 1024, ANSWER_TOKENS_DEFAULT = 16 };

static enum status read_length(struct answer_settings *settings, struct request_reader *reader) {
    int64_t limit = ANSWER_TOKENS_DEFAULT;
    TRY(request_reader_integer(reader, "max_tokens", settings->has_echo ? 0 : 1, INT32_MAX, &limit));
    /* An engine gives at least one token. */
    settings->is_answer_dropped = limit == 0;
    settings->token_limit = limit == 0 ? 1 : limit;
    return STATUS_OK;
}

static enum status read_log_probabilities(struct answer_settings *settings, struct request_reader *reader,
                                          int limit) {
    TRY(request_reader_integer(reader, "logprobs", 0, limit, &settings->log_probability_count));
    TRY(request_reader_integer(reader, "prompt_logprobs", -1, limit,
                               &settings->prompt_log_probability_count));
    if (settings->prompt_log_probability_count >= 0 && settings->is_streaming) {
        return request_reader_fail(reader, "prompt_logprobs", STATUS_BAD_ARGUMENT,
                                   "is not available in a stream");
    }
    if (settings->has_echo && settings->log_probability_count >= 0) {
        settings->prompt_log_probability_count = settings->log_probability_count;
    }
    return STATUS_OK;
}

static enum status refuse_completion_fields(const struct answer_settings *settings,
                                            struct request_reader *reader) {
    int64_t best_of = settings->choice_count;
    TRY(request_reader_integer(reader, "best_of", 0, CHOICES_MAX, &best_of));
    if (best_of > 0 && best_of < settings->choice_count) {
        return request_reader_fail(reader, "best_of", STATUS_BAD_ARGUMENT,
                                   "is %lld, but %lld answers are to be chosen from as many (n)",
                                   (long long)best_of, (long long)settings->choice_count);
    }
    if (best_of > settings->choice_count) {
        return request_reader_fail(reader, "best_of", STATUS_UNSUPPORTED,
                                   "is not supported; ask for n answers and choose among them");
    }
    return request_reader_refuse(reader, "suffix", "the model continues a prompt, it does not fill gaps");
}

static enum status add_text(struct answer *answer, size_t index, const struct json *value) {
    struct answer_prompt *prompt = &answer->prompts[index];
    size_t length = 0;
    const char *text = json_text(value, &length);
    /* A raw prompt carries its own control tokens; none is added. */
    struct tokenizer_encode_options options = {.match_added_tokens = true};
    if (text == NULL) {
        return request_reader_fail(&answer->reader, "prompt", STATUS_BAD_FORMAT,
                                   "holds something that is neither text nor a list of token ids");
    }
    TRY(tokenizer_encode(answer->api->options.tokenizer, text, length, &options, &prompt->ids));
    if (answer->settings.has_echo) {
        string_buffer_append(&prompt->text, text, length);
    }
    return string_buffer_check(&prompt->text);
}

static enum status add_ids(struct answer *answer, size_t index, const struct json *list) {
    struct answer_prompt *prompt = &answer->prompts[index];
    TRY(token_list_reserve(&prompt->ids, json_length(list)));
    for (size_t i = 0; i < json_length(list); i++) {
        const struct json *value = json_at(list, i);
        int64_t id = json_int64(value);
        if (json_kind(value) != JSON_KIND_INTEGER || id < 0 ||
            id >= tokenizer_vocabulary_size(answer->api->options.tokenizer)) {
            return request_reader_fail(&answer->reader, "prompt", STATUS_BAD_ARGUMENT,
                                       "holds something that is no token id of this model, at place %zu", i);
        }
        TRY(token_list_append(&prompt->ids, (int32_t)id));
    }
    if (answer->settings.has_echo) {
        return tokenizer_decode(answer->api->options.tokenizer, prompt->ids.ids, prompt->ids.count, false,
                                &prompt->text);
    }
    return STATUS_OK;
}

/* A text, a list of texts, a list of ids, or a list of such lists. */
static enum status read_prompts(struct answer *answer) {
    const struct json *value = request_reader_get(&answer->reader, "prompt");
    if (value == NULL) {
        return request_reader_fail(&answer->reader, "prompt", STATUS_BAD_FORMAT,
                                   "is missing; send a text, token ids, or a list of either");
    }
    bool is_list = json_kind(value) == JSON_KIND_ARRAY && json_length(value) > 0 &&
                   json_kind(json_at(value, 0)) != JSON_KIND_INTEGER;
    size_t count = is_list ? json_length(value) : 1;
    if (count > PROMPTS_MAX) {
        return request_reader_fail(&answer->reader, "prompt", STATUS_OUT_OF_RANGE,
                                   "holds %zu prompts; at most %d are taken at once", count, PROMPTS_MAX);
    }
    TRY(answer_add_prompts(answer, count));
    for (size_t i = 0; i < count; i++) {
        const struct json *prompt = is_list ? json_at(value, i) : value;
        bool has_ids = json_kind(prompt) == JSON_KIND_ARRAY;
        TRY(has_ids ? add_ids(answer, i, prompt) : add_text(answer, i, prompt));
    }
    return STATUS_OK;
}

static enum status read_request(struct answer *answer) {
    struct answer_settings *settings = &answer->settings;
    struct request_reader *reader = &answer->reader;
    TRY(answer_settings_read(settings, reader, &answer->api->recommended, &answer->arena));
    TRY(refuse_completion_fields(settings, reader));
    TRY(read_length(settings, reader));
    TRY(read_log_probabilities(settings, reader, answer->api->options.log_probability_limit));
    TRY(request_grammar_read(settings, reader, &answer->arena));
    return read_prompts(answer);
}

void api_handle_completions(struct api *api, const struct api_request *request, struct reply *reply) {
    struct answer *answer =
        answer_open(api, request, reply, &completion_reply_format, "/v1/completions", "cmpl-");
    if (answer != NULL) {
        enum status status = answer_read_id(answer, request, "cmpl-");
        answer_launch(answer, status == STATUS_OK ? read_request(answer) : status);
    }
}
