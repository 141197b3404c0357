/*
 * Events of a response's life, or the object that they add up to. Items are numbered in the order in which
 * they come; each is added, grows, and is done before the next begins.
 */
#include "server/responses_reply.h"

#include <stdlib.h>
#include <string.h>

#include "server/answer_json.h"
#include "server/api_internal.h"

struct responses_state *responses_state_of(const struct answer *answer) {
    return answer->format_state;
}

enum status responses_reply_prepare(struct answer *answer) {
    answer->format_state = calloc(1, sizeof(struct responses_state));
    CHECK_MEMORY(answer->format_state);
    return STATUS_OK;
}

static void write_item_id(struct json_writer *writer, const char *key, const struct answer *answer,
                          enum answer_block_kind kind, size_t index) {
    static const char *const prefixes[] = {"rs_", "msg_", "fc_"};
    struct string_buffer id = {0};
    const char *digits = strchr(answer->id, '_');
    string_buffer_append_format(&id, "%s%s%02zx", prefixes[kind], digits == NULL ? "" : digits + 1, index);
    json_writer_text(writer, key, string_buffer_text(&id));
    string_buffer_deinit(&id);
}

/* The part that holds an item's text. */
static void write_part(struct json_writer *writer, const char *key, const struct answer_block *block,
                       bool is_empty) {
    bool is_text = block->kind == ANSWER_BLOCK_TEXT;
    json_writer_begin(writer, key, '{');
    json_writer_text(writer, "type", is_text ? "output_text" : "reasoning_text");
    json_writer_bytes(writer, "text", string_buffer_text(&block->text), is_empty ? 0 : block->text.length);
    if (is_text) {
        json_writer_begin(writer, "annotations", '[');
        json_writer_end(writer, ']');
        json_writer_begin(writer, "logprobs", '[');
        json_writer_end(writer, ']');
    }
    json_writer_end(writer, '}');
}

/* `is_empty`: as a stream announces it. */
static void write_item(struct json_writer *writer, const char *key, const struct answer *answer,
                       const struct answer_block *block, size_t index, bool is_empty) {
    static const char *const types[] = {"reasoning", "message", "function_call"};
    json_writer_begin(writer, key, '{');
    write_item_id(writer, "id", answer, block->kind, index);
    json_writer_text(writer, "type", types[block->kind]);
    json_writer_text(writer, "status",
                     is_empty              ? "in_progress"
                     : block->is_abandoned ? "incomplete"
                                           : "completed");
    if (block->kind == ANSWER_BLOCK_CALL) {
        bool has_none = is_empty || block->text.length == 0;
        json_writer_bytes(writer, "call_id", string_buffer_text(&block->call_id), block->call_id.length);
        json_writer_bytes(writer, "name", string_buffer_text(&block->name), block->name.length);
        json_writer_bytes(writer, "arguments", has_none ? "" : block->text.data,
                          has_none ? 0 : block->text.length);
    } else {
        if (block->kind == ANSWER_BLOCK_TEXT) {
            json_writer_text(writer, "role", "assistant");
        } else {
            json_writer_begin(writer, "summary", '[');
            json_writer_end(writer, ']');
        }
        json_writer_begin(writer, "content", '[');
        if (!is_empty) {
            write_part(writer, NULL, block, false);
        }
        json_writer_end(writer, ']');
    }
    json_writer_end(writer, '}');
}

static void write_usage(struct json_writer *writer, const struct answer *answer) {
    struct answer_usage usage = answer_usage(answer);
    json_writer_begin(writer, "usage", '{');
    json_writer_integer(writer, "input_tokens", (int64_t)usage.prompt_tokens);
    json_writer_begin(writer, "input_tokens_details", '{');
    json_writer_integer(writer, "cached_tokens", (int64_t)usage.cached_tokens);
    json_writer_end(writer, '}');
    json_writer_integer(writer, "output_tokens", (int64_t)usage.completion_tokens);
    json_writer_begin(writer, "output_tokens_details", '{');
    json_writer_integer(writer, "reasoning_tokens", (int64_t)usage.reasoning_tokens);
    json_writer_end(writer, '}');
    json_writer_integer(writer, "total_tokens", (int64_t)(usage.prompt_tokens + usage.completion_tokens));
    json_writer_end(writer, '}');
}

/* "error" and "incomplete_details". */
static void write_outcome(struct json_writer *writer, const char *status, const char *error) {
    if (error != NULL) {
        json_writer_begin(writer, "error", '{');
        json_writer_text(writer, "code", "server_error");
        json_writer_text(writer, "message", error);
        json_writer_end(writer, '}');
    } else {
        json_writer_null(writer, "error");
    }
    if (strcmp(status, "incomplete") == 0) {
        json_writer_begin(writer, "incomplete_details", '{');
        json_writer_text(writer, "reason", "max_output_tokens");
        json_writer_end(writer, '}');
    } else {
        json_writer_null(writer, "incomplete_details");
    }
}

/* `error` NULL: none. */
static void write_response(struct json_writer *writer, const char *key, const struct answer *answer,
                           const char *status, const char *error) {
    const struct responses_state *state = responses_state_of(answer);
    json_writer_begin(writer, key, '{');
    json_writer_text(writer, "id", answer->id);
    json_writer_text(writer, "object", "response");
    json_writer_integer(writer, "created_at", answer->created);
    json_writer_text(writer, "status", status);
    json_writer_bool(writer, "background", state->is_background);
    write_outcome(writer, status, error);
    json_writer_text(writer, "model", answer->api->options.model_names[0]);
    json_writer_begin(writer, "output", '[');
    for (size_t i = 0; i < state->blocks.count; i++) {
        if (!state->blocks.items[i].is_abandoned) {
            write_item(writer, NULL, answer, &state->blocks.items[i], i, false);
        }
    }
    json_writer_end(writer, ']');
    string_buffer_append_char(writer->out, ',');
    string_buffer_append(writer->out, string_buffer_text(&state->request_members),
                         state->request_members.length);
    if (state->is_finished) {
        write_usage(writer, answer);
    } else {
        json_writer_null(writer, "usage");
    }
    json_writer_end(writer, '}');
}

/* An event whose object is open. */
static struct json_writer begin_event(struct answer *answer, const char *type) {
    struct responses_state *state = responses_state_of(answer);
    string_buffer_append_format(&answer->out, "event: %s\ndata: ", type);
    struct json_writer writer = json_writer_on(&answer->out);
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "type", type);
    json_writer_integer(&writer, "sequence_number", state->sequence++);
    return writer;
}

static void end_event(struct json_writer *writer) {
    json_writer_end(writer, '}');
    string_buffer_append_text(writer->out, "\n\n");
}

static void write_life_event(struct answer *answer, const char *type, const char *status, const char *error) {
    struct json_writer writer = begin_event(answer, type);
    write_response(&writer, "response", answer, status, error);
    end_event(&writer);
}

/* An event about a place in an item. */
static struct json_writer begin_item_event(struct answer *answer, const char *type,
                                           const struct answer_block *block, size_t index) {
    struct json_writer writer = begin_event(answer, type);
    json_writer_integer(&writer, "output_index", (int64_t)index);
    write_item_id(&writer, "item_id", answer, block->kind, index);
    if (block->kind != ANSWER_BLOCK_CALL) {
        json_writer_integer(&writer, "content_index", 0);
    }
    return writer;
}

static void write_item_event(struct answer *answer, const char *type, const struct answer_block *block,
                             size_t index, bool is_empty) {
    struct json_writer writer = begin_event(answer, type);
    json_writer_integer(&writer, "output_index", (int64_t)index);
    write_item(&writer, "item", answer, block, index, is_empty);
    end_event(&writer);
}

static void write_part_event(struct answer *answer, const char *type, const struct answer_block *block,
                             size_t index, bool is_empty) {
    if (block->kind != ANSWER_BLOCK_CALL) {
        struct json_writer writer = begin_item_event(answer, type, block, index);
        write_part(&writer, "part", block, is_empty);
        end_event(&writer);
    }
}

static void write_block_start(struct answer *answer, const struct answer_block *block, size_t index) {
    write_item_event(answer, "response.output_item.added", block, index, true);
    write_part_event(answer, "response.content_part.added", block, index, true);
}

static void write_delta(struct answer *answer, const struct answer_block *block, size_t index,
                        const struct output_event *event) {
    static const char *const types[] = {"response.reasoning_text.delta", "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    struct json_writer writer = begin_item_event(answer, types[block->kind], block, index);
    json_writer_bytes(&writer, "delta", event->text, event->length);
    if (block->kind == ANSWER_BLOCK_TEXT) {
        json_writer_begin(&writer, "logprobs", '[');
        json_writer_end(&writer, ']');
    }
    end_event(&writer);
}

static void write_block_end(struct answer *answer, const struct answer_block *block, size_t index) {
    static const char *const types[] = {"response.reasoning_text.done", "response.output_text.done",
                                        "response.function_call_arguments.done"};
    bool is_call = block->kind == ANSWER_BLOCK_CALL;
    struct json_writer writer = begin_item_event(answer, types[block->kind], block, index);
    json_writer_bytes(&writer, is_call ? "arguments" : "text", string_buffer_text(&block->text),
                      block->text.length);
    if (is_call) {
        json_writer_bytes(&writer, "name", string_buffer_text(&block->name), block->name.length);
    } else if (block->kind == ANSWER_BLOCK_TEXT) {
        json_writer_begin(&writer, "logprobs", '[');
        json_writer_end(&writer, ']');
    }
    end_event(&writer);
    write_part_event(answer, "response.content_part.done", block, index, false);
    write_item_event(answer, "response.output_item.done", block, index, false);
}

static enum status take_event(struct answer_item *item, const struct output_event *event) {
    struct answer *answer = item->answer;
    struct answer_blocks_step step;
    TRY(answer_blocks_take(&responses_state_of(answer)->blocks, event, &step));
    if (!answer->settings.is_streaming) {
        return STATUS_OK;
    }
    if (step.ended != NULL) {
        write_block_end(answer, step.ended, step.ended_index);
    }
    if (step.is_new) {
        write_block_start(answer, step.current, step.index);
    }
    if (event->kind != OUTPUT_EVENT_TOOL_CALL_START && !step.is_last) {
        write_delta(answer, step.current, step.index, event);
    }
    if (step.is_last) {
        write_block_end(answer, step.current, step.index);
    }
    return STATUS_OK;
}

/* Keeps the response as it is now, if it is to be kept. */
static enum status keep(struct answer *answer, const char *status, const char *error) {
    const struct responses_state *state = responses_state_of(answer);
    if (!state->is_stored) {
        return STATUS_OK;
    }
    struct string_buffer body = {0};
    struct json_writer writer = json_writer_on(&body);
    write_response(&writer, NULL, answer, status, error);
    enum status result = string_buffer_check(&body);
    if (result == STATUS_OK) {
        result = response_store_put(answer->api->responses, answer->id, &body, &state->conversation);
    }
    string_buffer_deinit(&body);
    return result;
}

static enum status submitted(struct answer *answer) {
    struct responses_state *state = responses_state_of(answer);
    TRY(keep(answer, "in_progress", NULL));
    if (answer->settings.is_streaming) {
        write_life_event(answer, "response.created", "in_progress", NULL);
        write_life_event(answer, "response.in_progress", "in_progress", NULL);
    } else if (state->is_background) {
        struct reply *reply = answer->reply;
        struct json_writer writer = json_writer_on(&answer->out);
        write_response(&writer, NULL, answer, "in_progress", NULL);
        TRY(string_buffer_check(&answer->out));
        answer->reply = NULL;
        reply->kind->whole(reply, 200, "application/json", answer->out.data, answer->out.length);
        string_buffer_clear(&answer->out);
    }
    return STATUS_OK;
}

/* The assistant's turn, as a later request's conversation has it. */
static void append_turn(struct responses_state *state) {
    struct string_buffer texts[2] = {{0}};
    struct json_writer writer = json_writer_on(&state->conversation);
    writer.has_item = state->conversation.length > 0;
    json_writer_begin(&writer, NULL, '{');
    json_writer_text(&writer, "role", "assistant");
    json_writer_begin(&writer, "tool_calls", '[');
    for (size_t i = 0; i < state->blocks.count; i++) {
        const struct answer_block *block = &state->blocks.items[i];
        if (block->kind != ANSWER_BLOCK_CALL) {
            string_buffer_append(&texts[block->kind], string_buffer_text(&block->text), block->text.length);
        } else if (!block->is_abandoned) {
            json_writer_begin(&writer, NULL, '{');
            json_writer_bytes(&writer, "id", string_buffer_text(&block->call_id), block->call_id.length);
            json_writer_begin(&writer, "function", '{');
            json_writer_bytes(&writer, "name", string_buffer_text(&block->name), block->name.length);
            json_writer_bytes(&writer, "arguments", string_buffer_text(&block->text), block->text.length);
            json_writer_end(&writer, '}');
            json_writer_end(&writer, '}');
        }
    }
    json_writer_end(&writer, ']');
    json_writer_bytes(&writer, "reasoning_content", string_buffer_text(&texts[ANSWER_BLOCK_REASONING]),
                      texts[ANSWER_BLOCK_REASONING].length);
    json_writer_bytes(&writer, "content", string_buffer_text(&texts[ANSWER_BLOCK_TEXT]),
                      texts[ANSWER_BLOCK_TEXT].length);
    json_writer_end(&writer, '}');
    string_buffer_deinit(&texts[0]);
    string_buffer_deinit(&texts[1]);
}

static enum status finish(struct answer *answer) {
    struct responses_state *state = responses_state_of(answer);
    bool is_cancelled = atomic_load(&answer->is_cancelled);
    bool is_cut = answer->items[0].choice.finish == ANSWER_FINISH_LENGTH;
    const char *status = is_cancelled ? "cancelled" : is_cut ? "incomplete" : "completed";
    struct answer_block *open = answer_blocks_close(&state->blocks);
    if (open != NULL && answer->settings.is_streaming) {
        write_block_end(answer, open, state->blocks.count - 1);
    }
    state->is_finished = true;
    append_turn(state);
    TRY(keep(answer, status, NULL));
    if (answer->settings.is_streaming) {
        write_life_event(answer,
                         strcmp(status, "completed") == 0 ? "response.completed" : "response.incomplete",
                         status, NULL);
    } else {
        struct json_writer writer = json_writer_on(&answer->out);
        write_response(&writer, NULL, answer, status, NULL);
    }
    return STATUS_OK;
}

static void fail(struct answer *answer, int http_status, const char *message) {
    (void)http_status;
    write_life_event(answer, "response.failed", "failed", message);
}

static void over(struct answer *answer) {
    struct responses_state *state = responses_state_of(answer);
    if (state == NULL) {
        return;
    }
    if (!state->is_finished && state->is_stored && answer->is_launched) {
        /* Nobody was told of a response that did not come about, unless it runs in the background. */
        if (state->is_background && answer->is_failed) {
            (void)keep(answer, "failed", error_last()->message);
        } else {
            response_store_delete(answer->api->responses, answer->id);
        }
    }
    answer_blocks_deinit(&state->blocks);
    string_buffer_deinit(&state->request_members);
    string_buffer_deinit(&state->conversation);
    free(state);
    answer->format_state = NULL;
}

const struct answer_format responses_reply_format = {
    .submitted = submitted,
    .event = take_event,
    .finish = finish,
    .keep_alive = answer_keep_alive_comment,
    .fail = fail,
    .over = over,
};
