/*
 * A conversation as data, read from the JSON that OpenAI-style clients send.
 *
 * Everything lives in the caller's request arena and does not refer to the JSON document. Missing and null
 * fields count as empty. Unknown fields are ignored; an unknown role or a field of the wrong type is an
 * error that names the message. Any thread, one arena per thread.
 */
#ifndef SLUICE_TEXT_CHAT_MESSAGE_H
#define SLUICE_TEXT_CHAT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "lib/json.h"
#include "text/control_token.h"

enum chat_role {
    CHAT_ROLE_SYSTEM,
    CHAT_ROLE_USER,
    CHAT_ROLE_ASSISTANT,
    CHAT_ROLE_TOOL,
    CHAT_ROLE_LATEST_REMINDER,
    CHAT_ROLE_DEVELOPER,
};

/* UTF-8 bytes that may hold NULs; `bytes` is never NULL and a NUL follows the last byte. */
struct chat_text {
    const char *bytes;
    size_t length;
};

struct chat_tool_call {
    struct chat_text id;
    struct chat_text name;
    struct chat_text arguments; /* as the client sent it: normally the text of a JSON object */
};

struct chat_tool {
    struct chat_text name;
    struct chat_text function_json; /* the "function" object in the spacing of the prompt (spec 8.3) */
};

struct chat_message {
    enum chat_role role;
    struct chat_text content;
    struct chat_text reasoning;    /* assistant */
    struct chat_text tool_call_id; /* tool */
    const struct chat_tool_call *tool_calls;
    size_t tool_call_count;
    const struct chat_tool *tools;
    size_t tool_count;
    bool has_response_format;
    struct chat_text response_format; /* JSON in the spacing of the prompt */
    enum control_token task;          /* CONTROL_TOKEN_NONE without a task */
    bool is_without_eos;              /* wo_eos: the turn is left open for the model to continue */
};

struct chat_conversation {
    struct chat_message *messages;
    size_t message_count;
};

/* A message with this content, borrowed, and nothing else. */
struct chat_message chat_message_of_text(enum chat_role role, const char *content, size_t length);

/*
 * Reads a `messages` array and the request's `tools` (NULL, null or an array). The request's tools go to the
 * first message if that is a system or developer message, else to a new empty system message before it; they
 * follow tools which that message already has.
 *
 * `content` is a string, null or a list of parts; text parts are joined by a blank line. In a tool result a
 * part of another type reads "[Unsupported TYPE]"; elsewhere it is refused. The reasoning of an assistant is
 * `reasoning_content`, or `reasoning` without it. Tool call `arguments` may be an object; missing ones are
 * "{}". BAD_FORMAT on anything malformed, UNSUPPORTED for parts that are no text.
 */
enum status chat_conversation_parse(const struct json *messages, const struct json *tools,
                                    struct arena *arena, struct chat_conversation *out);

#endif
