/* Events of Anthropic's streams, or the message that they add up to. */
#include "server/messages_reply.h"

#include <stdlib.h>

#include "server/answer_blocks.h"
#include "server/answer_json.h"
#include "server/api_internal.h"

struct messages_state {
    struct answer_blocks blocks;
};

static struct answer_blocks *blocks_of(const struct answer *answer) {
    return &((struct messages_state *)answer->format_state)->blocks;
}

enum status messages_reply_prepare(struct answer *answer) {
    answer->format_state = calloc(1, sizeof(struct messages_state));
    CHECK_MEMORY(answer->format_state);
    return STATUS_OK;
}

static void over(struct answer *answer) {
    if (answer->format_state != NULL) {
        answer_blocks_deinit(blocks_of(answer));
    }
    free(answer->format_state);
    answer->format_state = NULL;
}

/* An event whose object is open, with its type. */
static struct json_writer begin_event(struct answer *answer, const char *type) {
    string_buffer_append_format(&answer->out, "event: %s\ndata: ", type);
    struct json_writer writer = json_writer_on(&answer->out);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "type", type);
    return writer;
}

static void end_event(struct json_writer *writer) {
    json_writer_end(writer, '}');
    string_buffer_append_text(writer->out, "\n\n");
}

static void write_usage(struct json_writer *writer, const struct answer *answer) {
    struct answer_usage usage = answer_usage(answer);
    json_writer_begin(writer, "usage", '{');
    json_writer_integer(writer, "input_tokens", (int64_t)usage.prompt_tokens);
    /* Parts of input_tokens in no sense of this API: what is read from the cache is counted there. */
    json_writer_integer(writer, "cache_creation_input_tokens", 0);
    json_writer_integer(writer, "cache_read_input_tokens", 0);
    json_writer_integer(writer, "output_tokens", (int64_t)usage.completion_tokens);
    json_writer_end(writer, '}');
}

static void write_stop(struct json_writer *writer, const struct answer_choice *choice) {
    static const char *const reasons[] = {"end_turn", "max_tokens", "tool_use"};
    bool has_string = choice->stop_string != NULL;
    if (!choice->is_finished) {
        json_writer_null(writer, "stop_reason");
        json_writer_null(writer, "stop_sequence");
        return;
    }
    json_writer_text(writer, "stop_reason", has_string ? "stop_sequence" : reasons[choice->finish]);
    if (has_string) {
        json_writer_bytes(writer, "stop_sequence", choice->stop_string->bytes, choice->stop_string->length);
    } else {
        json_writer_null(writer, "stop_sequence");
    }
}

/* A block; `is_empty`: as a stream announces it. */
static void write_block(struct json_writer *writer, const char *key, const struct answer_block *block,
                        bool is_empty) {
    size_t length = is_empty ? 0 : block->text.length;
    const char *text = string_buffer_text(&block->text);
    json_writer_begin(writer, key, '{');
    switch (block->kind) {
    case ANSWER_BLOCK_REASONING:
        json_writer_text(writer, "type", "thinking");
        json_writer_bytes(writer, "thinking", text, length);
        json_writer_text(writer, "signature", "");
        break;
    case ANSWER_BLOCK_TEXT:
        json_writer_text(writer, "type", "text");
        json_writer_bytes(writer, "text", text, length);
        break;
    case ANSWER_BLOCK_CALL:
        json_writer_text(writer, "type", "tool_use");
        json_writer_bytes(writer, "id", string_buffer_text(&block->call_id), block->call_id.length);
        json_writer_bytes(writer, "name", string_buffer_text(&block->name), block->name.length);
        json_writer_raw(writer, "input", length == 0 ? "{}" : text, length == 0 ? 2 : length);
        break;
    }
    json_writer_end(writer, '}');
}

/* The message's members around its content. */
static void begin_message(struct json_writer *writer, const struct answer *answer) {
    json_writer_text(writer, "id", answer->id);
    json_writer_text(writer, "type", "message");
    json_writer_text(writer, "role", "assistant");
    json_writer_text(writer, "model", answer->api->options.model_names[0]);
    json_writer_begin(writer, "content", '[');
}

static void end_message(struct json_writer *writer, const struct answer *answer) {
    json_writer_end(writer, ']');
    write_stop(writer, &answer->items[0].choice);
    write_usage(writer, answer);
}

static void keep_alive(struct answer *answer) {
    struct json_writer writer = begin_event(answer, "ping");
    end_event(&writer);
}

/* The input is counted, so clients learn it before the prompt is read. */
static enum status submitted(struct answer *answer) {
    if (!answer->settings.is_streaming) {
        return STATUS_OK;
    }
    struct json_writer writer = begin_event(answer, "message_start");
    json_writer_begin(&writer, "message", '{');
    begin_message(&writer, answer);
    end_message(&writer, answer);
    json_writer_end(&writer, '}');
    end_event(&writer);
    keep_alive(answer);
    return STATUS_OK;
}

static void write_block_start(struct answer *answer, const struct answer_block *block, size_t index) {
    struct json_writer writer = begin_event(answer, "content_block_start");
    json_writer_integer(&writer, "index", (int64_t)index);
    write_block(&writer, "content_block", block, true);
    end_event(&writer);
}

static void write_block_stop(struct answer *answer, size_t index) {
    struct json_writer writer = begin_event(answer, "content_block_stop");
    json_writer_integer(&writer, "index", (int64_t)index);
    end_event(&writer);
}

static void write_delta(struct answer *answer, const struct output_event *event, size_t index) {
    static const char *const types[] = {"thinking_delta", "text_delta", "", "input_json_delta"};
    static const char *const keys[] = {"thinking", "text", "", "partial_json"};
    struct json_writer writer = begin_event(answer, "content_block_delta");
    json_writer_integer(&writer, "index", (int64_t)index);
    json_writer_begin(&writer, "delta", '{');
    json_writer_text(&writer, "type", types[event->kind]);
    json_writer_bytes(&writer, keys[event->kind], event->text, event->length);
    json_writer_end(&writer, '}');
    end_event(&writer);
}

static enum status take_event(struct answer_item *item, const struct output_event *event) {
    struct answer *answer = item->answer;
    struct answer_blocks_step step;
    TRY(answer_blocks_take(blocks_of(answer), event, &step));
    if (!answer->settings.is_streaming) {
        return STATUS_OK;
    }
    if (step.ended != NULL) {
        write_block_stop(answer, step.ended_index);
    }
    if (step.is_new) {
        write_block_start(answer, step.current, step.index);
    }
    if (event->kind != OUTPUT_EVENT_TOOL_CALL_START && !step.is_last) {
        write_delta(answer, event, step.index);
    }
    if (step.is_last) {
        write_block_stop(answer, step.index);
    }
    return STATUS_OK;
}

static void finish_stream(struct answer *answer) {
    struct answer_blocks *blocks = blocks_of(answer);
    if (answer_blocks_close(blocks) != NULL) {
        write_block_stop(answer, blocks->count - 1);
    }
    struct json_writer writer = begin_event(answer, "message_delta");
    json_writer_begin(&writer, "delta", '{');
    write_stop(&writer, &answer->items[0].choice);
    json_writer_end(&writer, '}');
    write_usage(&writer, answer);
    end_event(&writer);
    writer = begin_event(answer, "message_stop");
    end_event(&writer);
}

static enum status finish(struct answer *answer) {
    const struct answer_blocks *blocks = blocks_of(answer);
    if (answer->settings.is_streaming) {
        finish_stream(answer);
        return STATUS_OK;
    }
    struct json_writer writer = json_writer_on(&answer->out);
    json_writer_begin(&writer, NULL, '{');
    begin_message(&writer, answer);
    for (size_t i = 0; i < blocks->count; i++) {
        if (!blocks->items[i].is_abandoned) {
            write_block(&writer, NULL, &blocks->items[i], false);
        }
    }
    end_message(&writer, answer);
    json_writer_end(&writer, '}');
    return STATUS_OK;
}

static void fail(struct answer *answer, int http_status, const char *message) {
    string_buffer_append_text(&answer->out, "event: error\ndata: ");
    api_append_error(&answer->out, answer->path, http_status, message, NULL);
    string_buffer_append_text(&answer->out, "\n\n");
}

const struct answer_format messages_reply_format = {
    .submitted = submitted,
    .event = take_event,
    .finish = finish,
    .keep_alive = keep_alive,
    .fail = fail,
    .over = over,
};
