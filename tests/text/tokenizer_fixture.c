/* Shared by the tokenizer tests. */
#include "text/tokenizer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_ok(enum status status) {
    if (status != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
}

struct tokenizer *load_tokenizer(const char *path) {
    struct tokenizer *tokenizer = NULL;
    assert_ok(tokenizer_load(path, &tokenizer));
    return tokenizer;
}

struct json *load_json(const char *path) {
    struct json *json = NULL;
    assert_ok(json_parse_file(path, 64 << 20, &json));
    return json;
}

void encode_into(const struct tokenizer *tokenizer, const char *text, size_t length, bool match_added_tokens,
                 struct token_list *out) {
    struct tokenizer_encode_options options = {.match_added_tokens = match_added_tokens};
    out->count = 0;
    assert_ok(tokenizer_encode(tokenizer, text, length, &options, out));
}

void assert_ids(const struct tokenizer *tokenizer, const char *text, const int32_t *ids, size_t count) {
    struct token_list found = {0};
    encode_into(tokenizer, text, strlen(text), true, &found);
    assert_int_equal(found.count, count);
    assert_memory_equal(found.ids, ids, count * sizeof *ids);
    token_list_deinit(&found);
}

void assert_round_trip(const struct tokenizer *tokenizer, const char *text, size_t length,
                       bool match_added_tokens) {
    struct token_list ids = {0};
    struct string_buffer decoded = {0};
    encode_into(tokenizer, text, length, match_added_tokens, &ids);
    assert_ok(tokenizer_decode(tokenizer, ids.ids, ids.count, false, &decoded));
    assert_int_equal(decoded.length, length);
    if (length > 0) {
        assert_memory_equal(decoded.data, text, length);
    }
    string_buffer_deinit(&decoded);
    token_list_deinit(&ids);
}

char *repeat_text(const char *unit, size_t count, size_t *length) {
    size_t unit_length = strlen(unit);
    char *text = malloc(unit_length * count + 1);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + i * unit_length, unit, unit_length);
    }
    *length = unit_length * count;
    text[*length] = '\0';
    return text;
}
