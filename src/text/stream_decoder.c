/* Bytes pass through a window that is as long as the longest character. */
#include "text/stream_decoder.h"

#include <string.h>

void stream_decoder_init(struct stream_decoder *decoder, const struct tokenizer *tokenizer,
                         bool skip_special) {
    *decoder = (struct stream_decoder){.tokenizer = tokenizer, .skip_special = skip_special};
}

/* Gives out what is decided about the waiting bytes. */
static void flush_decided(struct stream_decoder *decoder, struct string_buffer *out) {
    while (decoder->pending_count > 0) {
        struct utf8_step step = utf8_next(decoder->pending, decoder->pending_count);
        if (step.kind == UTF8_INCOMPLETE) {
            break;
        }
        if (step.kind == UTF8_CHARACTER) {
            string_buffer_append(out, decoder->pending, step.length);
        } else {
            string_buffer_append(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        }
        decoder->pending_count -= step.length;
        memmove(decoder->pending, decoder->pending + step.length, decoder->pending_count);
    }
}

enum status stream_decoder_feed(struct stream_decoder *decoder, int32_t id, struct string_buffer *out) {
    size_t length = 0;
    const char *bytes = tokenizer_token_bytes(decoder->tokenizer, id, &length);
    CHECK(bytes != NULL, STATUS_OUT_OF_RANGE, "the token id %d is not in the tokenizer's vocabulary of %d",
          id, tokenizer_vocabulary_size(decoder->tokenizer));
    if (decoder->skip_special && tokenizer_is_special(decoder->tokenizer, id)) {
        return STATUS_OK;
    }
    for (size_t i = 0; i < length; i++) {
        decoder->pending[decoder->pending_count++] = bytes[i];
        flush_decided(decoder, out);
    }
    TRY(string_buffer_check(out));
    return STATUS_OK;
}

enum status stream_decoder_finish(struct stream_decoder *decoder, struct string_buffer *out) {
    if (decoder->pending_count > 0) {
        /* what waits is one incomplete character */
        string_buffer_append(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        decoder->pending_count = 0;
    }
    TRY(string_buffer_check(out));
    return STATUS_OK;
}
