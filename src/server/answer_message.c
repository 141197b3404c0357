/* Events appended to what they belong to. */
#include "server/answer_message.h"

#include <stdlib.h>

static void deinit_call(struct answer_tool_call *call) {
    string_buffer_deinit(&call->id);
    string_buffer_deinit(&call->name);
    string_buffer_deinit(&call->arguments);
}

void answer_message_deinit(struct answer_message *message) {
    string_buffer_deinit(&message->reasoning);
    string_buffer_deinit(&message->content);
    for (size_t i = 0; i < message->call_count; i++) {
        deinit_call(&message->calls[i]);
    }
    free(message->calls);
    *message = (struct answer_message){.calls = NULL};
}

static enum status start_call(struct answer_message *message, const struct output_event *event) {
    if (message->call_count == message->call_capacity) {
        size_t capacity = message->call_capacity == 0 ? 4 : 2 * message->call_capacity;
        struct answer_tool_call *calls = realloc(message->calls, capacity * sizeof *calls);
        CHECK_MEMORY(calls);
        message->calls = calls;
        message->call_capacity = capacity;
    }
    struct answer_tool_call *call = &message->calls[message->call_count++];
    *call = (struct answer_tool_call){.id = {0}};
    string_buffer_append_text(&call->id, event->call_id);
    string_buffer_append(&call->name, event->text, event->length);
    TRY(string_buffer_check(&call->id));
    return string_buffer_check(&call->name);
}

static enum status append(struct string_buffer *buffer, const struct output_event *event) {
    string_buffer_append(buffer, event->text, event->length);
    return string_buffer_check(buffer);
}

enum status answer_message_take(struct answer_message *message, const struct output_event *event) {
    switch (event->kind) {
    case OUTPUT_EVENT_REASONING:
        return append(&message->reasoning, event);
    case OUTPUT_EVENT_CONTENT:
        return append(&message->content, event);
    case OUTPUT_EVENT_TOOL_CALL_START:
        return start_call(message, event);
    case OUTPUT_EVENT_TOOL_CALL_ARGUMENTS:
        return append(&message->calls[event->call_index].arguments, event);
    case OUTPUT_EVENT_TOOL_CALL_ABANDON:
        deinit_call(&message->calls[--message->call_count]);
        break;
    case OUTPUT_EVENT_TOOL_CALL_END:
        break;
    }
    return STATUS_OK;
}
