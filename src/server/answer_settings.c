/* Fields to struct members; bounds are those of sluice/sampling.h, which are vLLM's. */
#include "server/answer_settings.h"

#include <stdlib.h>

#include "server/plain_fields.h"

static const double number_limit = 1e9;

struct answer_settings answer_settings_default(const struct api_options *options,
                                               const struct generation_config *recommended, uint64_t seed) {
    struct answer_settings settings = {.sampling = recommended->sampling,
                                       .token_limit = -1,
                                       .choice_count = 1,
                                       .end_tokens = recommended->end_tokens,
                                       .end_token_count = (size_t)recommended->end_token_count,
                                       .stop_tokens = recommended->end_tokens,
                                       .stop_token_count = (size_t)recommended->end_token_count,
                                       .log_probability_count = -1,
                                       .prompt_log_probability_count = -1,
                                       .skips_special_tokens = true,
                                       .includes_usage = options->forces_usage};
    settings.sampling.seed = seed;
    return settings;
}

enum status answer_settings_read_sampling(struct answer_settings *settings, struct request_reader *reader) {
    struct sluice_sampling *sampling = &settings->sampling;
    int64_t top_k = sampling->top_k;
    TRY(request_reader_number(reader, "temperature", 0.0, number_limit, &sampling->temperature));
    TRY(request_reader_positive(reader, "top_p", 1.0, &sampling->top_p));
    TRY(request_reader_integer(reader, "top_k", -1, INT32_MAX, &top_k));
    sampling->top_k = (int32_t)top_k;
    return STATUS_OK;
}

/* {"id": bias}: ids are keys, so they are strings. */
static enum status read_logit_bias(struct sluice_sampling *sampling, struct request_reader *reader,
                                   struct arena *arena) {
    const struct json *object = NULL;
    TRY(request_reader_object(reader, "logit_bias", &object));
    if (object == NULL) {
        return STATUS_OK;
    }
    struct sluice_logit_bias *biases = ARENA_NEW(arena, struct sluice_logit_bias, json_length(object));
    CHECK_MEMORY(biases);
    size_t count = 0;
    for (const struct json_member *member = json_first(object); member != NULL;
         member = json_next(object, member)) {
        const char *key = json_member_key(member, NULL);
        const struct json *value = json_member_value(member);
        char *end = NULL;
        long token = strtol(key, &end, 10);
        if (end == key || *end != '\0' || token < 0 || token > INT32_MAX) {
            return request_reader_fail(reader, "logit_bias", STATUS_BAD_FORMAT,
                                       "has a key that is no token id");
        }
        bool is_number = json_kind(value) == JSON_KIND_INTEGER || json_kind(value) == JSON_KIND_REAL;
        if (!is_number || !(json_number(value) >= -100.0 && json_number(value) <= 100.0)) {
            return request_reader_fail(reader, "logit_bias", STATUS_OUT_OF_RANGE,
                                       "has a bias for token %ld that is no number from -100 to 100", token);
        }
        biases[count++] = (struct sluice_logit_bias){(int32_t)token, (float)json_number(value)};
    }
    sampling->logit_bias = biases;
    sampling->logit_bias_count = count;
    return STATUS_OK;
}

static enum status read_all_sampling(struct answer_settings *settings, struct request_reader *reader,
                                     struct arena *arena) {
    struct sluice_sampling *sampling = &settings->sampling;
    int64_t seed = (int64_t)sampling->seed;
    TRY(request_reader_integer(reader, "seed", INT64_MIN, INT64_MAX, &seed));
    sampling->seed = (uint64_t)seed;
    TRY(answer_settings_read_sampling(settings, reader));
    TRY(request_reader_number(reader, "min_p", 0.0, 1.0, &sampling->min_p));
    TRY(request_reader_positive(reader, "repetition_penalty", number_limit, &sampling->repetition_penalty));
    TRY(request_reader_number(reader, "presence_penalty", -2.0, 2.0, &sampling->presence_penalty));
    TRY(request_reader_number(reader, "frequency_penalty", -2.0, 2.0, &sampling->frequency_penalty));
    return read_logit_bias(sampling, reader, arena);
}

/* A list of token ids; `*out` stays as it was if it is absent. */
static enum status read_ids(struct request_reader *reader, const char *name, struct arena *arena,
                            const int32_t **out, size_t *count) {
    const struct json *list = NULL;
    TRY(request_reader_array(reader, name, &list));
    if (list == NULL) {
        return STATUS_OK;
    }
    int32_t *ids = ARENA_NEW(arena, int32_t, json_length(list));
    CHECK_MEMORY(ids);
    for (size_t i = 0; i < json_length(list); i++) {
        const struct json *value = json_at(list, i);
        if (json_kind(value) != JSON_KIND_INTEGER || json_int64(value) < 0 || json_int64(value) > INT32_MAX) {
            return request_reader_fail(reader, name, STATUS_BAD_FORMAT,
                                       "holds something that is no token id, at place %zu", i);
        }
        ids[i] = (int32_t)json_int64(value);
    }
    *out = ids;
    *count = json_length(list);
    return STATUS_OK;
}

/* The item of a string or list of strings, copied; it must not be empty. */
static enum status read_string_item(struct request_reader *reader, const char *name, const struct json *value,
                                    struct arena *arena, struct stop_string *out) {
    size_t length = 0;
    const char *bytes = json_text(value, &length);
    if (bytes == NULL || length == 0) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT,
                                   "holds something that is no string of at least one character");
    }
    *out = (struct stop_string){arena_copy_string(arena, bytes, length), length};
    CHECK_MEMORY(out->bytes);
    return STATUS_OK;
}

enum status answer_settings_read_stops(struct answer_settings *settings, struct request_reader *reader,
                                       const char *name, struct arena *arena) {
    const struct json *value = request_reader_get(reader, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    bool is_list = json_kind(value) == JSON_KIND_ARRAY;
    size_t count = is_list ? json_length(value) : 1;
    if (count > STOP_STRINGS_MAX) {
        return request_reader_fail(reader, name, STATUS_OUT_OF_RANGE, "has %zu strings; at most %d are taken",
                                   count, STOP_STRINGS_MAX);
    }
    struct stop_string *stops = ARENA_NEW(arena, struct stop_string, count);
    CHECK_MEMORY(stops);
    for (size_t i = 0; i < count; i++) {
        TRY(read_string_item(reader, name, is_list ? json_at(value, i) : value, arena, &stops[i]));
    }
    settings->stops = stops;
    settings->stop_count = count;
    return STATUS_OK;
}

static enum status read_bad_words(struct answer_settings *settings, struct request_reader *reader,
                                  struct arena *arena) {
    const struct json *list = NULL;
    TRY(request_reader_array(reader, "bad_words", &list));
    if (list == NULL) {
        return STATUS_OK;
    }
    struct service_text *words = ARENA_NEW(arena, struct service_text, json_length(list));
    CHECK_MEMORY(words);
    for (size_t i = 0; i < json_length(list); i++) {
        struct stop_string word = {.bytes = NULL};
        TRY(read_string_item(reader, "bad_words", json_at(list, i), arena, &word));
        words[i] = (struct service_text){word.bytes, word.length};
    }
    settings->bad_words = words;
    settings->bad_word_count = json_length(list);
    return STATUS_OK;
}

/* The engine stops at the request's tokens and at the model's end tokens. */
static enum status read_stop_tokens(struct answer_settings *settings, struct request_reader *reader,
                                    const struct generation_config *recommended, struct arena *arena) {
    const int32_t *own = NULL;
    size_t own_count = 0;
    TRY(read_ids(reader, "stop_token_ids", arena, &own, &own_count));
    TRY(request_reader_bool(reader, "ignore_eos", &settings->ignores_end));
    size_t end_count = settings->ignores_end ? 0 : (size_t)recommended->end_token_count;
    int32_t *all = ARENA_NEW(arena, int32_t, own_count + end_count);
    CHECK_MEMORY(all);
    for (size_t i = 0; i < own_count + end_count; i++) {
        all[i] = i < own_count ? own[i] : recommended->end_tokens[i - own_count];
    }
    settings->stop_tokens = all;
    settings->stop_token_count = own_count + end_count;
    settings->own_stop_token_count = own_count;
    return STATUS_OK;
}

static enum status read_ends(struct answer_settings *settings, struct request_reader *reader,
                             const struct generation_config *recommended, struct arena *arena) {
    TRY(answer_settings_read_stops(settings, reader, "stop", arena));
    TRY(request_reader_bool(reader, "include_stop_str_in_output", &settings->includes_stop));
    TRY(read_stop_tokens(settings, reader, recommended, arena));
    TRY(request_reader_integer(reader, "min_tokens", 0, INT32_MAX, &settings->min_tokens));
    TRY(read_ids(reader, "allowed_token_ids", arena, &settings->allowed_tokens,
                 &settings->allowed_token_count));
    if (settings->allowed_tokens != NULL && settings->allowed_token_count == 0) {
        return request_reader_fail(reader, "allowed_token_ids", STATUS_BAD_ARGUMENT, "allows no token");
    }
    return read_bad_words(settings, reader, arena);
}

static enum status read_stream_options(struct answer_settings *settings, struct request_reader *reader) {
    const struct json *object = NULL;
    TRY(request_reader_object(reader, "stream_options", &object));
    if (object == NULL) {
        return STATUS_OK;
    }
    if (!settings->is_streaming) {
        return request_reader_fail(reader, "stream_options", STATUS_BAD_ARGUMENT,
                                   "has a meaning with \"stream\": true only");
    }
    struct request_reader inner;
    TRY(request_reader_init(&inner, object, "stream_options."));
    bool includes_usage = settings->includes_usage;
    enum status status = request_reader_bool(&inner, "include_usage", &includes_usage);
    if (status == STATUS_OK) {
        status = request_reader_bool(&inner, "continuous_usage_stats", &settings->is_usage_continuous);
    }
    TRY(request_reader_forward(reader, &inner, status));
    settings->includes_usage = settings->includes_usage || includes_usage;
    settings->is_usage_continuous = settings->is_usage_continuous && settings->includes_usage;
    return STATUS_OK;
}

/* Fields that would change the answer, and that this server cannot do. */
static enum status refuse_fields(struct request_reader *reader) {
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"use_beam_search", "answers are sampled, one token after the other"},
        {"logprob_token_ids", "log-probabilities are given for the likeliest tokens; use logprobs"},
        {"kv_transfer_params", "this server does not exchange its cache with others"},
        {"thinking_token_budget", "limit the answer with max_tokens, or choose a reasoning_effort"},
        {"repetition_detection", "use repetition_penalty or frequency_penalty"},
        {"logits_processors", "use logit_bias, bad_words or allowed_token_ids"},
        {"prompt_embeds", "send the prompt as text or token ids"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        TRY(request_reader_refuse(reader, refused[i].name, refused[i].why));
    }
    return STATUS_OK;
}

static enum status read_plain_fields(struct request_reader *reader) {
    static const struct plain_field fields[] = {
        {"user", PLAIN_TEXT},
        {"metadata", PLAIN_OBJECT},
        {"store", PLAIN_BOOL},
        {"service_tier", PLAIN_TIER},
        {"request_id", PLAIN_TEXT},
        {"session_id", PLAIN_TEXT},
        {"vllm_xargs", PLAIN_OBJECT},
        {"safety_identifier", PLAIN_TEXT},
        {"length_penalty", PLAIN_NUMBER},
        {"early_stopping", PLAIN_ANY},
        {"add_special_tokens", PLAIN_BOOL},
        {"prompt_cache_key", PLAIN_TEXT},
        {"spaces_between_special_tokens", PLAIN_BOOL},
    };
    return plain_fields_read(reader, fields, sizeof fields / sizeof *fields);
}

enum status answer_settings_read(struct answer_settings *settings, struct request_reader *reader,
                                 const struct generation_config *recommended, struct arena *arena) {
    TRY(refuse_fields(reader));
    TRY(read_plain_fields(reader));
    TRY(read_all_sampling(settings, reader, arena));
    TRY(read_ends(settings, reader, recommended, arena));
    TRY(request_reader_bool(reader, "stream", &settings->is_streaming));
    TRY(read_stream_options(settings, reader));
    TRY(request_reader_integer(reader, "n", 1, CHOICES_MAX, &settings->choice_count));
    TRY(request_reader_integer(reader, "priority", INT32_MIN, INT32_MAX, &settings->priority));
    TRY(request_reader_integer(reader, "truncate_prompt_tokens", -1, INT32_MAX,
                               &settings->prompt_token_limit));
    TRY(request_reader_bool(reader, "skip_special_tokens", &settings->skips_special_tokens));
    TRY(request_reader_bool(reader, "return_token_ids", &settings->returns_token_ids));
    TRY(request_reader_bool(reader, "return_tokens_as_token_ids", &settings->returns_tokens_as_ids));
    TRY(request_reader_bool(reader, "echo", &settings->has_echo));
    const char *salt = NULL;
    TRY(request_reader_text(reader, "cache_salt", &salt, NULL));
    /* A salt keeps a cache from being shared; one that is not used is not shared either. */
    settings->skips_prefix_cache = salt != NULL;
    return STATUS_OK;
}
