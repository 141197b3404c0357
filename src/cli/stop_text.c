/* The held text is searched from its start at every push; it is shorter than the longest stop string. */
#include "cli/stop_text.h"

#include <string.h>

void stop_text_init(struct stop_text *stop, const struct option_list *stops) {
    *stop = (struct stop_text){.stops = stops};
}

void stop_text_deinit(struct stop_text *stop) {
    string_buffer_deinit(&stop->held);
}

enum match { MATCH_NONE, MATCH_PARTIAL, MATCH_FULL };

/* Whether a stop string starts at `text`, or could if more text came. */
static enum match match_at(const struct option_list *stops, const char *text, size_t length) {
    enum match best = MATCH_NONE;
    for (int i = 0; i < stops->count; i++) {
        size_t stop_length = strlen(stops->items[i]);
        size_t common = stop_length < length ? stop_length : length;
        if (stop_length == 0 || memcmp(text, stops->items[i], common) != 0) {
            continue;
        }
        if (common == stop_length) {
            return MATCH_FULL;
        }
        best = MATCH_PARTIAL;
    }
    return best;
}

void stop_text_push(struct stop_text *stop, const char *text, size_t length, struct string_buffer *out) {
    if (stop->is_stopped) {
        return;
    }
    string_buffer_append(&stop->held, text, length);
    size_t start = 0;
    enum match match = MATCH_NONE;
    while (start < stop->held.length && match == MATCH_NONE) {
        match = match_at(stop->stops, stop->held.data + start, stop->held.length - start);
        start += match == MATCH_NONE;
    }
    string_buffer_append(out, string_buffer_text(&stop->held), start);
    string_buffer_drop_front(&stop->held, start);
    if (match == MATCH_FULL) {
        stop->is_stopped = true;
        string_buffer_clear(&stop->held);
    }
}

void stop_text_finish(struct stop_text *stop, struct string_buffer *out) {
    string_buffer_append(out, string_buffer_text(&stop->held), stop->held.length);
    string_buffer_clear(&stop->held);
}
