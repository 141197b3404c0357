/* Server-sent events: the same events come out, however the bytes are cut into pieces. */
#include <stdint.h>
#include <string.h>

#include "lib/event_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void record(void *context, const char *data, size_t length) {
    struct string_buffer *events = context;
    string_buffer_append(events, data, length);
    string_buffer_append_char(events, '\0');
}

/* The events of the bytes in pieces of some length; the buffer must be freed. */
static struct string_buffer read_in_pieces(const uint8_t *data, size_t size, size_t piece) {
    struct string_buffer events = {0};
    struct event_stream stream = {.on_event = record, .context = &events};
    for (size_t i = 0; i < size; i += piece) {
        event_stream_push(&stream, (const char *)data + i, size - i < piece ? size - i : piece);
    }
    event_stream_deinit(&stream);
    return events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct string_buffer whole = read_in_pieces(data, size, size + 1);
    for (size_t piece = 1; piece < 4; piece++) {
        struct string_buffer pieces = read_in_pieces(data, size, piece);
        if (pieces.length != whole.length ||
            (whole.length > 0 && memcmp(pieces.data, whole.data, whole.length) != 0)) {
            __builtin_trap();
        }
        string_buffer_deinit(&pieces);
    }
    string_buffer_deinit(&whole);
    return 0;
}
