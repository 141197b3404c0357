/*
 * A conversation to a prompt: messages, tools, and whether the model thinks first.
 *
 * Thinking is on unless the operator's or the request's switches turn it off; of several the later one
 * counts: --default-chat-template-kwargs, reasoning_effort, chat_template_kwargs.
 */
#ifndef SLUICE_SERVER_REQUEST_CHAT_H
#define SLUICE_SERVER_REQUEST_CHAT_H

#include <stdbool.h>

#include "server/answer.h"
#include "text/chat_encoder_v4.h"

struct request_chat {
    struct chat_encode_options format;
    bool adds_generation_prompt;
    bool continues_final_message;
};

/*
 * How chats are encoded that say nothing else: by the operator's switches, the JSON object of
 * --default-chat-template-kwargs (NULL: none). BAD_FORMAT or UNSUPPORTED for what is no switch of this model.
 */
enum status request_chat_read_defaults(struct request_chat *chat, const char *defaults);

/* Reads "effort" of an object within the request; NULL has none. `place` is in front of it in errors. */
enum status request_chat_read_effort(struct request_chat *chat, struct request_reader *reader,
                                     const char *place, const struct json *object);

/* Reads reasoning_effort and chat_template_kwargs. */
enum status request_chat_read_thinking(struct request_chat *chat, struct request_reader *reader);

/* Reads tools, tool_choice and parallel_tool_calls into the settings. `*tools` is NULL if there are none. */
enum status request_chat_read_tools(struct answer_settings *settings, struct request_reader *reader,
                                    struct arena *arena, const struct json **tools);

/* Which tool the model calls: the function `name`; without one `word`, which is none, auto or required. */
struct request_tool_choice {
    const char *word, *name;
    bool is_serial;          /* at most one call */
    const char *schema_name; /* what the API calls a tool's schema, for errors; NULL: as chat does */
};

/* Sets the settings by a choice among a list of chat's tools (NULL or empty: there are none). */
enum status request_chat_choose_tools(struct answer_settings *settings, struct request_reader *reader,
                                      struct arena *arena, const struct json *tools,
                                      const struct request_tool_choice *choice);

/* The conversation becomes the only prompt of `ids`; tells in the settings how the answer starts. */
enum status request_chat_encode(const struct request_chat *chat, const struct tokenizer *tokenizer,
                                struct chat_conversation *conversation, struct answer_settings *settings,
                                struct token_list *ids);

#endif
