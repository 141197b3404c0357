/*
 * Reads a stream of server-sent events, in whatever pieces it comes. One thread at a time.
 */
#ifndef SLUICE_LIB_EVENT_STREAM_H
#define SLUICE_LIB_EVENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"

enum { EVENT_STREAM_BYTES_MAX = 1 << 26 }; /* of an event */

struct event_stream {
    /* The data of an event without its last newline; names, ids and comments are passed over. */
    void (*on_event)(void *context, const char *data, size_t length);
    void *context;
    /* Of the stream itself. */
    struct string_buffer line, data;
    bool has_data;
    bool is_behind_return; /* a newline belongs to the carriage return before it */
    bool is_started;
    bool is_failed;
};

/* Once failed, the rest is passed over. */
void event_stream_push(struct event_stream *stream, const char *bytes, size_t length);

/* OUT_OF_MEMORY, or BAD_FORMAT after an event that was too long. */
enum status event_stream_check(const struct event_stream *stream);

void event_stream_deinit(struct event_stream *stream);

#endif
