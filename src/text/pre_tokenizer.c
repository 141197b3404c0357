/* A depth-first walk: nothing is stored but one position per split. */
#include "text/pre_tokenizer.h"

#include "text/utf8.h"

struct split_walk {
    const struct pre_tokenizer *pre_tokenizer;
    struct regex_matcher *matcher;
    const struct piece_sink *sink;
};

void pre_tokenizer_deinit(struct pre_tokenizer *pre_tokenizer) {
    for (size_t i = 0; i < pre_tokenizer->split_count; i++) {
        regex_destroy(&pre_tokenizer->splits[i]);
    }
    pre_tokenizer->split_count = 0;
}

/* Applies the splits from `depth` on. Each sees its piece as a whole text: look-ahead ends with the piece. */
static enum status split_piece(const struct split_walk *walk, size_t depth, const char *text, size_t length) {
    if (length == 0) {
        return STATUS_OK;
    }
    if (depth == walk->pre_tokenizer->split_count) {
        TRY(walk->sink->accept(walk->sink->context, text, length));
        return STATUS_OK;
    }
    size_t piece_start = 0;
    size_t search_start = 0;
    while (search_start < length) {
        struct regex_span span;
        bool is_found;
        TRY(regex_find(walk->pre_tokenizer->splits[depth], walk->matcher, text, length, search_start, &span,
                       &is_found));
        if (!is_found) {
            break;
        }
        TRY(split_piece(walk, depth + 1, text + piece_start, span.start - piece_start));
        TRY(split_piece(walk, depth + 1, text + span.start, span.end - span.start));
        piece_start = span.end;
        search_start = span.end;
        if (span.start == span.end && span.end < length) {
            search_start += utf8_next(text + span.end, length - span.end).length;
        }
    }
    TRY(split_piece(walk, depth + 1, text + piece_start, length - piece_start));
    return STATUS_OK;
}

enum status pre_tokenizer_split(const struct pre_tokenizer *pre_tokenizer, struct regex_matcher *matcher,
                                const char *text, size_t length, const struct piece_sink *sink) {
    struct split_walk walk = {pre_tokenizer, matcher, sink};
    TRY(split_piece(&walk, 0, text, length));
    return STATUS_OK;
}
