/* tokenizer.json: no crash, and with every tokenizer that loads a text survives encoding and decoding. */
#include <stdint.h>
#include <string.h>

#include "text/stream_decoder.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char TEXT[] =
    "<think>Hello  world</think>\n\n12345 don't\xFF\xE4\xBD \xE4\xBD\xA0\xE5\xA5\xBD aaaa\t<x>";

/* A split may give up on a text; whatever is encoded must come back. */
static void check_text(const struct tokenizer *tokenizer, bool match_added_tokens) {
    struct token_list ids = {0};
    struct string_buffer decoded = {0};
    struct string_buffer streamed = {0};
    struct tokenizer_encode_options options = {.match_added_tokens = match_added_tokens};
    if (tokenizer_encode(tokenizer, TEXT, sizeof TEXT - 1, &options, &ids) == STATUS_OK) {
        if (tokenizer_decode(tokenizer, ids.ids, ids.count, false, &decoded) != STATUS_OK ||
            decoded.length != sizeof TEXT - 1 || memcmp(decoded.data, TEXT, decoded.length) != 0) {
            __builtin_trap();
        }
        struct stream_decoder decoder;
        stream_decoder_init(&decoder, tokenizer, true);
        for (size_t i = 0; i < ids.count; i++) {
            if (stream_decoder_feed(&decoder, ids.ids[i], &streamed) != STATUS_OK) {
                __builtin_trap();
            }
        }
        if (stream_decoder_finish(&decoder, &streamed) != STATUS_OK ||
            utf8_valid_length(string_buffer_text(&streamed), streamed.length) != streamed.length) {
            __builtin_trap();
        }
    }
    string_buffer_deinit(&streamed);
    string_buffer_deinit(&decoded);
    token_list_deinit(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokenizer *tokenizer = NULL;
    if (tokenizer_parse((const char *)data, size, "input", &tokenizer) != STATUS_OK) {
        return 0;
    }
    check_text(tokenizer, false);
    check_text(tokenizer, true);
    tokenizer_destroy(&tokenizer);
    return 0;
}
