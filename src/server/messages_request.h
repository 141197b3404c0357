/*
 * A request of Anthropic's Messages API in the terms of chat: its messages, system text and tools as the JSON
 * that chat requests have.
 */
#ifndef SLUICE_SERVER_MESSAGES_REQUEST_H
#define SLUICE_SERVER_MESSAGES_REQUEST_H

#include "base/string_buffer.h"
#include "server/request_reader.h"

/*
 * Appends {"messages": [...], "tools": [...]}. The field at fault is in the reader after an error. A block of
 * the system text with a client's attribution header is left out: it differs from request to request, and
 * would keep requests from sharing their beginnings.
 */
enum status messages_request_convert(struct request_reader *reader, struct string_buffer *out);

#endif
