/*
 * Building the object. A member that could not be made (memory was out, text was no UTF-8) is noticed by
 * json_set, which is told apart only at the end: nothing is printed then.
 */
#include "cli/generate_json.h"

#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

/* Text that may hold ill-formed bytes, which JSON cannot. */
static struct json *lossy_string(const char *bytes, size_t length) {
    struct string_buffer lossy = {0};
    utf8_append_lossy(&lossy, bytes, length);
    struct json *value = lossy.is_failed ? NULL : json_new_string(string_buffer_text(&lossy), lossy.length);
    string_buffer_deinit(&lossy);
    return value;
}

static struct json *buffer_string(const struct string_buffer *buffer) {
    return json_new_string(string_buffer_text(buffer), buffer->length);
}

static struct json *id_array(const struct token_list *ids) {
    struct json *array = json_new_array();
    for (size_t i = 0; array != NULL && i < ids->count; i++) {
        if (!json_append(array, json_new_integer(ids->ids[i]))) {
            json_free(&array);
        }
    }
    return array;
}

/* Gives up an object or array whose building failed. */
static struct json *kept(struct json *value, bool is_complete) {
    if (!is_complete) {
        json_free(&value);
    }
    return value;
}

/* A token's bytes as numbers: it need not be UTF-8. */
static struct json *byte_array(const char *bytes, size_t length) {
    struct json *array = json_new_array();
    for (size_t i = 0; array != NULL && i < length; i++) {
        if (!json_append(array, json_new_integer((unsigned char)bytes[i]))) {
            json_free(&array);
            return NULL;
        }
    }
    return array;
}

/* {"token", "token_id", "logprob", "bytes"} */
static struct json *token_object(const struct tokenizer *tokenizer,
                                 const struct sluice_log_probability *entry) {
    size_t length = 0;
    const char *bytes = tokenizer == NULL ? NULL : tokenizer_token_bytes(tokenizer, entry->token, &length);
    struct json *object = json_new_object();
    struct json *list = bytes == NULL ? json_new_null() : byte_array(bytes, length);
    return kept(object, object != NULL &&
                            json_set(object, "token",
                                     bytes == NULL ? json_new_null() : lossy_string(bytes, length)) &&
                            json_set(object, "token_id", json_new_integer(entry->token)) &&
                            json_set(object, "logprob", json_new_real(entry->log_probability)) &&
                            json_set(object, "bytes", list));
}

enum status generate_json_add_log_probabilities(struct json *list, const struct tokenizer *tokenizer,
                                                const struct sluice_log_probability *chosen,
                                                const struct sluice_log_probability *top, size_t top_count) {
    struct json *object = token_object(tokenizer, chosen);
    struct json *alternatives = json_new_array();
    for (size_t i = 0; alternatives != NULL && i < top_count; i++) {
        if (!json_append(alternatives, token_object(tokenizer, &top[i]))) {
            json_free(&alternatives);
        }
    }
    CHECK(object != NULL && json_set(object, "top_logprobs", alternatives) && json_append(list, object),
          STATUS_OUT_OF_MEMORY, "out of memory");
    return STATUS_OK;
}

static struct json *tool_call_array(const struct generate_output *output) {
    struct json *array = json_new_array();
    for (size_t i = 0; array != NULL && i < output->tool_call_count; i++) {
        const struct tool_call_record *call = &output->tool_calls[i];
        struct json *function = json_new_object();
        struct json *object = json_new_object();
        bool is_complete = function != NULL && json_set(function, "name", buffer_string(&call->name)) &&
                           json_set(function, "arguments", buffer_string(&call->arguments));
        function = kept(function, is_complete);
        is_complete = object != NULL && json_set(object, "id", buffer_string(&call->id)) &&
                      json_set(object, "type", json_new_string("function", strlen("function"))) &&
                      json_set(object, "function", function);
        if (!json_append(array, kept(object, is_complete))) {
            json_free(&array);
        }
    }
    return array;
}

static struct json *usage_object(size_t prompt_tokens, size_t completion_tokens) {
    struct json *object = json_new_object();
    return kept(
        object,
        object != NULL && json_set(object, "prompt_tokens", json_new_integer((int64_t)prompt_tokens)) &&
            json_set(object, "completion_tokens", json_new_integer((int64_t)completion_tokens)) &&
            json_set(object, "total_tokens", json_new_integer((int64_t)(prompt_tokens + completion_tokens))));
}

static double rate(size_t tokens, double seconds) {
    return seconds > 0.0 ? (double)tokens / seconds : 0.0;
}

static struct json *timings_object(const struct generate_timings *timings, size_t prompt_tokens) {
    struct json *object = json_new_object();
    return kept(object, object != NULL &&
                            json_set(object, "load_seconds", json_new_real(timings->load_seconds)) &&
                            json_set(object, "prefill_seconds", json_new_real(timings->prefill_seconds)) &&
                            json_set(object, "decode_seconds", json_new_real(timings->decode_seconds)) &&
                            json_set(object, "prefill_tokens_per_second",
                                     json_new_real(rate(prompt_tokens, timings->prefill_seconds))) &&
                            json_set(object, "decode_tokens_per_second",
                                     json_new_real(rate(timings->decode_steps, timings->decode_seconds))));
}

/* How many drafts the answer took to be verified, and how many were right. */
static struct json *drafts_object(const struct generate_timings *timings) {
    struct json *object = json_new_object();
    return kept(object,
                object != NULL &&
                    json_set(object, "verified", json_new_integer((int64_t)timings->verified_drafts)) &&
                    json_set(object, "accepted", json_new_integer((int64_t)timings->accepted_drafts)));
}

static struct json *whole_object(struct generate_output *output, enum finish_reason reason,
                                 const struct generate_timings *timings) {
    static const char *const reasons[] = {"length", "stop", "tool_calls"};
    const struct token_list *prompt = &output->request->prompt;
    struct json *object = json_new_object();
    struct json *log_probabilities = output->log_probabilities;
    output->log_probabilities = NULL;
    bool has_reasoning = output->reasoning.length > 0;
    bool is_complete =
        object != NULL && json_set(object, "prompt_token_ids", id_array(prompt)) &&
        json_set(object, "token_ids", id_array(&output->token_ids)) &&
        json_set(object, "text", buffer_string(&output->text)) &&
        json_set(object, "reasoning", has_reasoning ? buffer_string(&output->reasoning) : json_new_null()) &&
        json_set(object, "tool_calls", tool_call_array(output)) &&
        json_set(object, "finish_reason", json_new_string(reasons[reason], strlen(reasons[reason])));
    if (log_probabilities != NULL) {
        is_complete = json_set(object, "logprobs", log_probabilities) && is_complete;
    }
    if (timings->has_drafts) {
        is_complete = json_set(object, "drafts", drafts_object(timings)) && is_complete;
    }
    is_complete = is_complete &&
                  json_set(object, "usage", usage_object(prompt->count, output->token_ids.count)) &&
                  json_set(object, "timings", timings_object(timings, prompt->count));
    return kept(object, is_complete);
}

enum status generate_json_print(struct generate_output *output, enum finish_reason reason,
                                const struct generate_timings *timings) {
    struct json *object = whole_object(output, reason, timings);
    CHECK(object != NULL, STATUS_OUT_OF_MEMORY, "out of memory while the result was put together");
    struct string_buffer line = {0};
    enum status status = json_write_spaced(object, &line);
    if (status == STATUS_OK) {
        puts(string_buffer_text(&line));
    }
    string_buffer_deinit(&line);
    json_free(&object);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
