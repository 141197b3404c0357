/*
 * The conversation of a request of the Responses API in the terms of chat: its items become messages, in the
 * JSON that chat requests have.
 */
#ifndef SLUICE_SERVER_RESPONSES_REQUEST_H
#define SLUICE_SERVER_RESPONSES_REQUEST_H

#include "base/string_buffer.h"
#include "server/request_reader.h"

/*
 * Reads "input": a text, or items (messages, reasoning, function calls and their outputs). Appends chat
 * messages, separated by commas, without brackets; a comma first if `out` holds some already. What one
 * assistant's turn is made of becomes one message.
 */
enum status responses_request_convert_input(struct request_reader *reader, struct string_buffer *out);

/* Reads "tools" and appends a list of chat's tools; UNSUPPORTED names tools that are not the client's. */
enum status responses_request_convert_tools(struct request_reader *reader, struct string_buffer *out);

#endif
