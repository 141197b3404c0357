/* As chat, with text in place of messages; with echo the prompt comes first, its tokens among the others. */
#include "server/completion_reply.h"

#include "server/answer_json.h"

static const char object_name[] = "text_completion";

static const struct answer_prompt *prompt_of(const struct answer_item *item) {
    return &item->answer->prompts[item->choice.prompt_index];
}

/* The members of a choice behind its text. `has_prompt`: the prompt's tokens come with it. */
static void write_rest(struct json_writer *writer, struct answer_item *item, bool has_prompt) {
    const struct answer_settings *settings = &item->answer->settings;
    struct log_probability_names names = answer_names(item->answer);
    struct token_records *records = &item->choice.records;
    const struct token_records *parts[2];
    size_t part_count = 0;
    if (has_prompt && settings->has_echo) {
        parts[part_count++] = &item->choice.prompt_records;
    }
    parts[part_count++] = records;
    if (settings->log_probability_count >= 0) {
        log_probability_write_completion(writer, "logprobs", &names, parts, part_count, &item->text_offset);
    } else {
        json_writer_null(writer, "logprobs");
    }
    answer_write_finish(writer, &item->choice);
    if (settings->returns_token_ids) {
        answer_write_token_ids(writer, records);
        if (has_prompt) {
            json_writer_ids(writer, "prompt_token_ids", prompt_of(item)->ids.ids, prompt_of(item)->ids.count);
        }
    }
    token_records_clear(records);
}

static void write_chunk(struct answer_item *item, const char *text, size_t length) {
    struct answer *answer = item->answer;
    struct json_writer writer = json_writer_on(&answer->out);
    struct string_buffer whole = {0};
    bool is_first = !item->has_begun;
    item->has_begun = true;
    if (is_first) {
        string_buffer_append(&whole, string_buffer_text(&prompt_of(item)->text),
                             prompt_of(item)->text.length);
    }
    string_buffer_append(&whole, text, length);
    answer_begin_data(answer);
    json_writer_begin(&writer, NULL, '{');
    answer_write_head(&writer, answer, object_name);
    json_writer_begin(&writer, "choices", '[');
    json_writer_begin(&writer, NULL, '{');
    json_writer_integer(&writer, "index", (int64_t)item->choice.index);
    json_writer_bytes(&writer, "text", string_buffer_text(&whole), whole.length);
    write_rest(&writer, item, is_first);
    json_writer_end(&writer, '}');
    json_writer_end(&writer, ']');
    if (answer->settings.is_usage_continuous) {
        answer_write_usage(&writer, "usage", answer);
    }
    json_writer_end(&writer, '}');
    answer_end_data(answer);
    string_buffer_deinit(&whole);
}

static enum status write_event(struct answer_item *item, const struct output_event *event) {
    if (!item->answer->settings.is_streaming) {
        return answer_message_take(&item->message, event);
    }
    write_chunk(item, event->text, event->length);
    return STATUS_OK;
}

static enum status finish_choice(struct answer_item *item) {
    if (item->answer->settings.is_streaming) {
        write_chunk(item, "", 0);
    }
    return STATUS_OK;
}

static void write_whole_choice(struct json_writer *writer, struct answer_item *item) {
    const struct answer_settings *settings = &item->answer->settings;
    struct log_probability_names names = answer_names(item->answer);
    struct string_buffer whole = {0};
    string_buffer_append(&whole, string_buffer_text(&prompt_of(item)->text), prompt_of(item)->text.length);
    string_buffer_append(&whole, string_buffer_text(&item->message.content), item->message.content.length);
    json_writer_begin(writer, NULL, '{');
    json_writer_integer(writer, "index", (int64_t)item->choice.index);
    json_writer_bytes(writer, "text", string_buffer_text(&whole), whole.length);
    write_rest(writer, item, true);
    /* With echo their place is among the log-probabilities. */
    if (settings->prompt_log_probability_count >= 0 && !settings->has_echo) {
        log_probability_write_prompt(writer, "prompt_logprobs", &names, &item->choice.prompt_records);
    }
    json_writer_end(writer, '}');
    string_buffer_deinit(&whole);
}

static enum status finish(struct answer *answer) {
    if (answer->settings.is_streaming) {
        if (answer->settings.includes_usage) {
            answer_write_usage_chunk(answer, object_name);
        }
        answer_end_marker(answer);
        return STATUS_OK;
    }
    struct json_writer writer = json_writer_on(&answer->out);
    json_writer_begin(&writer, NULL, '{');
    answer_write_head(&writer, answer, object_name);
    json_writer_begin(&writer, "choices", '[');
    for (size_t i = 0; i < answer->item_count; i++) {
        write_whole_choice(&writer, &answer->items[i]);
    }
    json_writer_end(&writer, ']');
    answer_write_usage(&writer, "usage", answer);
    json_writer_end(&writer, '}');
    return STATUS_OK;
}

const struct answer_format completion_reply_format = {
    .event = write_event,
    .finish_choice = finish_choice,
    .finish = finish,
    .keep_alive = answer_keep_alive_comment,
    .fail = answer_fail_data,
};
