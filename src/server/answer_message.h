/* What an answer's events add up to: the message that a whole reply shows. One thread at a time. */
#ifndef SLUICE_SERVER_ANSWER_MESSAGE_H
#define SLUICE_SERVER_ANSWER_MESSAGE_H

#include <stddef.h>

#include "base/string_buffer.h"
#include "text/output_event.h"

struct answer_tool_call {
    struct string_buffer id, name, arguments;
};

struct answer_message {
    struct string_buffer reasoning, content;
    struct answer_tool_call *calls;
    size_t call_count, call_capacity;
};

/* Frees all; a zeroed struct is an empty message. */
void answer_message_deinit(struct answer_message *message);

enum status answer_message_take(struct answer_message *message, const struct output_event *event);

#endif
