/*
 * Token ids, one at a time, to text that can be shown at once.
 *
 * What it gives out is always well-formed UTF-8 and never part of a character: bytes that may still become
 * one wait, at most three of them. Ill-formed bytes come out as U+FFFD as soon as they are known to be
 * (text/utf8.h says how they are grouped), at the latest at the end. The pieces joined are the decoding of
 * all ids with its ill-formed bytes replaced. Nothing to free; one thread at a time.
 */
#ifndef SLUICE_TEXT_STREAM_DECODER_H
#define SLUICE_TEXT_STREAM_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

struct stream_decoder {
    const struct tokenizer *tokenizer; /* borrowed */
    bool skip_special;
    char pending[UTF8_CHARACTER_BYTES_MAX];
    size_t pending_count;
};

/* Starts at no text. With `skip_special`, tokens that the file flags as special give none. */
void stream_decoder_init(struct stream_decoder *decoder, const struct tokenizer *tokenizer,
                         bool skip_special);

/* Appends what the token completes, perhaps nothing. OUT_OF_RANGE if the id is no token: nothing changes. */
enum status stream_decoder_feed(struct stream_decoder *decoder, int32_t id, struct string_buffer *out);

/* Appends U+FFFD for bytes that still wait; the decoder is at the start again. */
enum status stream_decoder_finish(struct stream_decoder *decoder, struct string_buffer *out);

#endif
