/*
 * The fixed texts and the tool markup of the V4 prompt (spec deepseek-v4 8.4, 8.5, 8.6).
 *
 * "DSML" tags are written with the control token inside plain angle brackets; names, keys and values are
 * plain bytes and nothing in them is escaped. Any thread.
 */
#ifndef SLUICE_TEXT_CHAT_TOOLS_V4_H
#define SLUICE_TEXT_CHAT_TOOLS_V4_H

#include "text/chat_message.h"
#include "text/chat_prompt.h"

/* Appends the block that describes the tools; ends with one newline. */
void chat_tools_append_schemas(struct chat_prompt *prompt, const struct chat_tool *tools, size_t tool_count);

/*
 * Appends an assistant's tool calls (call_count > 0) with the blank line before them. Arguments that are not
 * the text of a JSON object become one string parameter named "arguments".
 */
enum status chat_tools_append_calls(struct chat_prompt *prompt, const struct chat_tool_call *calls,
                                    size_t call_count);

#endif
