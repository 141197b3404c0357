/* Names and order of members are vLLM's. */
#include "server/answer_json.h"

#include "server/api_internal.h"

void answer_write_head(struct json_writer *writer, const struct answer *answer, const char *object) {
    json_writer_text(writer, "id", answer->id);
    json_writer_text(writer, "object", object);
    json_writer_integer(writer, "created", answer->created);
    json_writer_text(writer, "model", answer->api->options.model_names[0]);
}

void answer_write_usage(struct json_writer *writer, const char *key, const struct answer *answer) {
    struct answer_usage usage = answer_usage(answer);
    json_writer_begin(writer, key, '{');
    json_writer_integer(writer, "prompt_tokens", (int64_t)usage.prompt_tokens);
    json_writer_integer(writer, "completion_tokens", (int64_t)usage.completion_tokens);
    json_writer_integer(writer, "total_tokens", (int64_t)(usage.prompt_tokens + usage.completion_tokens));
    if (answer->api->options.prints_tokens_details) {
        json_writer_begin(writer, "prompt_tokens_details", '{');
        json_writer_integer(writer, "cached_tokens", (int64_t)usage.cached_tokens);
        json_writer_end(writer, '}');
    }
    json_writer_begin(writer, "completion_tokens_details", '{');
    json_writer_integer(writer, "reasoning_tokens", (int64_t)usage.reasoning_tokens);
    json_writer_integer(writer, "accepted_prediction_tokens", (int64_t)usage.accepted_drafts);
    json_writer_integer(writer, "rejected_prediction_tokens", (int64_t)usage.rejected_drafts);
    json_writer_end(writer, '}');
    json_writer_end(writer, '}');
}

void answer_write_finish(struct json_writer *writer, const struct answer_choice *choice) {
    if (!choice->is_finished) {
        json_writer_null(writer, "finish_reason");
        return;
    }
    json_writer_text(writer, "finish_reason", answer_finish_name(choice->finish));
    if (choice->has_stop_token) {
        json_writer_integer(writer, "stop_reason", choice->stop_token);
    } else if (choice->stop_string != NULL) {
        json_writer_bytes(writer, "stop_reason", choice->stop_string->bytes, choice->stop_string->length);
    } else {
        json_writer_null(writer, "stop_reason");
    }
}

void answer_write_token_ids(struct json_writer *writer, const struct token_records *records) {
    json_writer_begin(writer, "token_ids", '[');
    for (size_t i = 0; i < records->count; i++) {
        json_writer_integer(writer, NULL, records->items[i].id);
    }
    json_writer_end(writer, ']');
}

struct log_probability_names answer_names(const struct answer *answer) {
    return (struct log_probability_names){answer->api->options.tokenizer,
                                          answer->settings.returns_tokens_as_ids};
}

void answer_begin_data(struct answer *answer) {
    string_buffer_append_text(&answer->out, "data: ");
}

void answer_end_data(struct answer *answer) {
    string_buffer_append_text(&answer->out, "\n\n");
}

void answer_keep_alive_comment(struct answer *answer) {
    string_buffer_append_text(&answer->out, ": keep-alive\n\n");
}

void answer_end_marker(struct answer *answer) {
    string_buffer_append_text(&answer->out, "data: [DONE]\n\n");
}

void answer_fail_data(struct answer *answer, int http_status, const char *message) {
    answer_begin_data(answer);
    api_append_error(&answer->out, answer->path, http_status, message, NULL);
    answer_end_data(answer);
    answer_end_marker(answer);
}

void answer_write_usage_chunk(struct answer *answer, const char *object) {
    struct json_writer writer = json_writer_on(&answer->out);
    answer_begin_data(answer);
    json_writer_begin(&writer, NULL, '{');
    answer_write_head(&writer, answer, object);
    json_writer_begin(&writer, "choices", '[');
    json_writer_end(&writer, ']');
    answer_write_usage(&writer, "usage", answer);
    json_writer_end(&writer, '}');
    answer_end_data(answer);
}
