/*
 * One chunk for each event, and one for each finish; tokens that gave no text yet are reported (ids,
 * log-probabilities) with the next chunk, at the latest with the finish.
 */
#include "server/chat_reply.h"

#include <string.h>

#include "server/answer_json.h"

static const char chunk_object[] = "chat.completion.chunk";

/* A chunk up to its delta, which is open. */
static void begin_chunk(struct json_writer *writer, struct answer_item *item) {
    struct answer *answer = item->answer;
    answer_begin_data(answer);
    *writer = json_writer_on(&answer->out);
    json_writer_begin(writer, NULL, '{');
    answer_write_head(writer, answer, chunk_object);
    json_writer_begin(writer, "choices", '[');
    json_writer_begin(writer, NULL, '{');
    json_writer_integer(writer, "index", (int64_t)item->choice.index);
    json_writer_begin(writer, "delta", '{');
}

/* What else a choice of a chunk or a whole reply has. */
static void write_records(struct json_writer *writer, struct answer_item *item) {
    const struct answer *answer = item->answer;
    struct log_probability_names names = answer_names(answer);
    struct token_records *records = &item->choice.records;
    if (answer->settings.log_probability_count >= 0 && records->count > 0) {
        log_probability_write_chat(writer, "logprobs", &names, records);
    } else {
        json_writer_null(writer, "logprobs");
    }
    if (answer->settings.returns_token_ids) {
        answer_write_token_ids(writer, records);
    }
    token_records_clear(records);
}

/* A chunk from behind its choices; the first one of a choice has the prompt's ids, if they are wanted. */
static void end_choices(struct json_writer *writer, struct answer_item *item) {
    struct answer *answer = item->answer;
    if (answer->settings.returns_token_ids && !item->has_begun) {
        const struct token_list *ids = &answer->prompts[0].ids;
        json_writer_ids(writer, "prompt_token_ids", ids->ids, ids->count);
    }
    item->has_begun = true;
    if (answer->settings.is_usage_continuous) {
        answer_write_usage(writer, "usage", answer);
    }
    json_writer_end(writer, '}');
    answer_end_data(answer);
}

/* A chunk from behind its delta. */
static void end_chunk(struct json_writer *writer, struct answer_item *item) {
    json_writer_end(writer, '}');
    write_records(writer, item);
    answer_write_finish(writer, &item->choice);
    json_writer_end(writer, '}');
    json_writer_end(writer, ']');
    end_choices(writer, item);
}

/* The first chunk of a choice says whose turn it is. */
static void begin_choice(struct answer_item *item) {
    struct answer *answer = item->answer;
    if (item->has_begun) {
        return;
    }
    struct json_writer writer = json_writer_on(&answer->out);
    answer_begin_data(answer);
    json_writer_begin(&writer, NULL, '{');
    answer_write_head(&writer, answer, chunk_object);
    json_writer_begin(&writer, "choices", '[');
    json_writer_begin(&writer, NULL, '{');
    json_writer_integer(&writer, "index", (int64_t)item->choice.index);
    json_writer_begin(&writer, "delta", '{');
    json_writer_text(&writer, "role", "assistant");
    json_writer_bytes(&writer, "content", string_buffer_text(&answer->prompts[0].text),
                      answer->prompts[0].text.length);
    json_writer_end(&writer, '}');
    json_writer_null(&writer, "logprobs");
    json_writer_null(&writer, "finish_reason");
    json_writer_end(&writer, '}');
    json_writer_end(&writer, ']');
    end_choices(&writer, item);
}

static void write_call_delta(struct json_writer *writer, const struct output_event *event) {
    json_writer_begin(writer, "tool_calls", '[');
    json_writer_begin(writer, NULL, '{');
    json_writer_integer(writer, "index", (int64_t)event->call_index);
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_START) {
        json_writer_text(writer, "id", event->call_id);
        json_writer_text(writer, "type", "function");
    }
    json_writer_begin(writer, "function", '{');
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_START) {
        json_writer_bytes(writer, "name", event->text, event->length);
        json_writer_text(writer, "arguments", "");
    } else {
        json_writer_bytes(writer, "arguments", event->text, event->length);
    }
    json_writer_end(writer, '}');
    json_writer_end(writer, '}');
    json_writer_end(writer, ']');
}

static enum status write_event(struct answer_item *item, const struct output_event *event) {
    struct json_writer writer;
    if (!item->answer->settings.is_streaming) {
        return answer_message_take(&item->message, event);
    }
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_END || event->kind == OUTPUT_EVENT_TOOL_CALL_ABANDON) {
        return STATUS_OK;
    }
    begin_choice(item);
    begin_chunk(&writer, item);
    if (event->kind == OUTPUT_EVENT_CONTENT) {
        json_writer_bytes(&writer, "content", event->text, event->length);
    } else if (event->kind == OUTPUT_EVENT_REASONING) {
        json_writer_bytes(&writer, "reasoning", event->text, event->length);
        json_writer_bytes(&writer, "reasoning_content", event->text, event->length);
    } else {
        write_call_delta(&writer, event);
    }
    end_chunk(&writer, item);
    return STATUS_OK;
}

static enum status finish_choice(struct answer_item *item) {
    struct json_writer writer;
    if (item->answer->settings.is_streaming) {
        begin_choice(item);
        begin_chunk(&writer, item);
        end_chunk(&writer, item);
    }
    return STATUS_OK;
}

static void write_calls(struct json_writer *writer, const struct answer_message *message) {
    json_writer_begin(writer, "tool_calls", '[');
    for (size_t i = 0; i < message->call_count; i++) {
        const struct answer_tool_call *call = &message->calls[i];
        json_writer_begin(writer, NULL, '{');
        json_writer_bytes(writer, "id", string_buffer_text(&call->id), call->id.length);
        json_writer_text(writer, "type", "function");
        json_writer_begin(writer, "function", '{');
        json_writer_bytes(writer, "name", string_buffer_text(&call->name), call->name.length);
        json_writer_bytes(writer, "arguments", string_buffer_text(&call->arguments), call->arguments.length);
        json_writer_end(writer, '}');
        json_writer_end(writer, '}');
    }
    json_writer_end(writer, ']');
}

static void write_message(struct json_writer *writer, const struct answer_item *item) {
    const struct answer_message *message = &item->message;
    const struct string_buffer *echo = &item->answer->prompts[0].text;
    json_writer_begin(writer, "message", '{');
    json_writer_text(writer, "role", "assistant");
    if (message->content.length + echo->length == 0 && message->call_count > 0) {
        json_writer_null(writer, "content");
    } else {
        struct string_buffer content = {0};
        string_buffer_append(&content, string_buffer_text(echo), echo->length);
        string_buffer_append(&content, string_buffer_text(&message->content), message->content.length);
        json_writer_bytes(writer, "content", string_buffer_text(&content), content.length);
        string_buffer_deinit(&content);
    }
    json_writer_null(writer, "refusal");
    if (message->reasoning.length > 0) {
        json_writer_bytes(writer, "reasoning", message->reasoning.data, message->reasoning.length);
        json_writer_bytes(writer, "reasoning_content", message->reasoning.data, message->reasoning.length);
    }
    if (message->call_count > 0) {
        write_calls(writer, message);
    }
    json_writer_end(writer, '}');
}

static void write_whole(struct answer *answer) {
    struct json_writer writer = json_writer_on(&answer->out);
    struct log_probability_names names = answer_names(answer);
    json_writer_begin(&writer, NULL, '{');
    answer_write_head(&writer, answer, "chat.completion");
    json_writer_begin(&writer, "choices", '[');
    for (size_t i = 0; i < answer->item_count; i++) {
        struct answer_item *item = &answer->items[i];
        json_writer_begin(&writer, NULL, '{');
        json_writer_integer(&writer, "index", (int64_t)item->choice.index);
        write_message(&writer, item);
        write_records(&writer, item);
        answer_write_finish(&writer, &item->choice);
        json_writer_end(&writer, '}');
    }
    json_writer_end(&writer, ']');
    answer_write_usage(&writer, "usage", answer);
    if (answer->settings.prompt_log_probability_count >= 0) {
        log_probability_write_prompt(&writer, "prompt_logprobs", &names,
                                     &answer->items[0].choice.prompt_records);
    }
    if (answer->settings.returns_token_ids) {
        const struct token_list *ids = &answer->prompts[0].ids;
        json_writer_ids(&writer, "prompt_token_ids", ids->ids, ids->count);
    }
    json_writer_end(&writer, '}');
}

static enum status finish(struct answer *answer) {
    if (!answer->settings.is_streaming) {
        write_whole(answer);
        return STATUS_OK;
    }
    if (answer->settings.includes_usage) {
        answer_write_usage_chunk(answer, chunk_object);
    }
    answer_end_marker(answer);
    return STATUS_OK;
}

const struct answer_format chat_reply_format = {
    .event = write_event,
    .finish_choice = finish_choice,
    .finish = finish,
    .keep_alive = answer_keep_alive_comment,
    .fail = answer_fail_data,
};
