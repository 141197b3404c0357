/*
 * Cuts text into the pieces that byte-pair encoding never joins.
 *
 * A list of splits (spec deepseek-v4 7.1), each applied to the pieces that the one before left: a match
 * becomes a piece, and so does the text between two matches. Built once, then read by any thread.
 */
#ifndef SLUICE_TEXT_PRE_TOKENIZER_H
#define SLUICE_TEXT_PRE_TOKENIZER_H

#include <stddef.h>

#include "base/status.h"
#include "lib/regex.h"

enum { PRE_TOKENIZER_SPLITS_MAX = 16 };

struct pre_tokenizer {
    struct regex *splits[PRE_TOKENIZER_SPLITS_MAX]; /* owned */
    size_t split_count;
};

/* Receives the pieces in order; `bytes` is never empty. A failure ends the splitting. */
struct piece_sink {
    enum status (*accept)(void *context, const char *bytes, size_t length);
    void *context;
};

void pre_tokenizer_deinit(struct pre_tokenizer *pre_tokenizer);

/* Cuts `text`, valid UTF-8. The concatenated pieces are the text. `matcher` belongs to the calling thread. */
enum status pre_tokenizer_split(const struct pre_tokenizer *pre_tokenizer, struct regex_matcher *matcher,
                                const char *text, size_t length, const struct piece_sink *sink);

#endif
