/* The held text is searched from its start at every push; it is shorter than the longest stop string. */
#include "text/stop_text.h"

#include <string.h>

void stop_text_init(struct stop_text *stop, const struct stop_string *stops, size_t stop_count) {
    *stop = (struct stop_text){.stops = stops, .stop_count = stop_count};
}

void stop_text_deinit(struct stop_text *stop) {
    string_buffer_deinit(&stop->held);
}

/* The stop string that `text` starts with; *is_partial: it could if more text came. */
static const struct stop_string *match_at(const struct stop_text *stop, const char *text, size_t length,
                                          bool *is_partial) {
    *is_partial = false;
    for (size_t i = 0; i < stop->stop_count; i++) {
        const struct stop_string *candidate = &stop->stops[i];
        size_t common = candidate->length < length ? candidate->length : length;
        if (candidate->length == 0 || memcmp(text, candidate->bytes, common) != 0) {
            continue;
        }
        if (common == candidate->length) {
            return candidate;
        }
        *is_partial = true;
    }
    return NULL;
}

void stop_text_push(struct stop_text *stop, const char *text, size_t length, struct string_buffer *out) {
    if (stop->found != NULL) {
        return;
    }
    string_buffer_append(&stop->held, text, length);
    size_t start = 0;
    bool is_partial = false;
    while (start < stop->held.length && stop->found == NULL && !is_partial) {
        stop->found = match_at(stop, stop->held.data + start, stop->held.length - start, &is_partial);
        start += stop->found == NULL && !is_partial;
    }
    if (out != NULL) {
        string_buffer_append(out, string_buffer_text(&stop->held), start);
    }
    string_buffer_drop_front(&stop->held, start);
    if (stop->found != NULL) {
        string_buffer_clear(&stop->held);
    }
}

void stop_text_finish(struct stop_text *stop, struct string_buffer *out) {
    string_buffer_append(out, string_buffer_text(&stop->held), stop->held.length);
    string_buffer_clear(&stop->held);
}
