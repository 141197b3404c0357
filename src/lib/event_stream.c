/* As the HTML standard says: lines end with CR, LF or both; a blank line ends an event. */
#include "lib/event_stream.h"

#include <string.h>

static void end_event(struct event_stream *stream) {
    if (stream->has_data) {
        stream->on_event(stream->context, string_buffer_text(&stream->data), stream->data.length);
    }
    string_buffer_clear(&stream->data);
    stream->has_data = false;
}

static void end_line(struct event_stream *stream) {
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    static const char field[] = "data";
    const char *line = string_buffer_text(&stream->line);
    size_t length = stream->line.length;
    if (!stream->is_started && strncmp(line, byte_order_mark, strlen(byte_order_mark)) == 0) {
        line += strlen(byte_order_mark);
        length -= strlen(byte_order_mark);
    }
    stream->is_started = true;
    if (length == 0) {
        end_event(stream);
    } else if (length >= strlen(field) && memcmp(line, field, strlen(field)) == 0 &&
               (length == strlen(field) || line[strlen(field)] == ':')) {
        size_t skipped = length == strlen(field) ? length : strlen(field) + 1;
        skipped += skipped < length && line[skipped] == ' ' ? 1 : 0;
        if (stream->has_data) {
            string_buffer_append_char(&stream->data, '\n');
        }
        string_buffer_append(&stream->data, line + skipped, length - skipped);
        stream->has_data = true;
    }
    string_buffer_clear(&stream->line);
}

void event_stream_push(struct event_stream *stream, const char *bytes, size_t length) {
    for (size_t i = 0; i < length && !stream->is_failed; i++) {
        bool is_second_half = stream->is_behind_return && bytes[i] == '\n';
        stream->is_behind_return = bytes[i] == '\r';
        if (is_second_half) {
            continue;
        }
        if (bytes[i] == '\n' || bytes[i] == '\r') {
            end_line(stream);
        } else {
            string_buffer_append_char(&stream->line, bytes[i]);
        }
        stream->is_failed = stream->line.length + stream->data.length > EVENT_STREAM_BYTES_MAX ||
                            stream->line.is_failed || stream->data.is_failed;
    }
}

enum status event_stream_check(const struct event_stream *stream) {
    TRY(string_buffer_check(&stream->line));
    TRY(string_buffer_check(&stream->data));
    CHECK(!stream->is_failed, STATUS_BAD_FORMAT, "an event of the stream is longer than %d MiB",
          EVENT_STREAM_BYTES_MAX >> 20);
    return STATUS_OK;
}

void event_stream_deinit(struct event_stream *stream) {
    string_buffer_deinit(&stream->line);
    string_buffer_deinit(&stream->data);
}
