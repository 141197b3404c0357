/* Encodings recorded with the reference implementation (tests/golden/tokenizers/README.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/stream_decoder.h"
#include "text/tokenizer_fixture.h"

#define GOLDEN SLUICE_SOURCE_DIR "/tests/golden/tokenizers/"

static void check_ids(const struct tokenizer *tokenizer, const char *text, size_t length,
                      const struct json *recorded) {
    struct token_list ids = {0};
    encode_into(tokenizer, text, length, true, &ids);
    if (ids.count != json_length(recorded)) {
        fail_msg("%zu ids instead of %zu for \"%s\"", ids.count, json_length(recorded), text);
    }
    for (size_t i = 0; i < ids.count; i++) {
        if (ids.ids[i] != json_int64(json_at(recorded, i))) {
            fail_msg("id %zu is %d instead of %d for \"%s\"", i, ids.ids[i],
                     (int)json_int64(json_at(recorded, i)), text);
        }
    }
    token_list_deinit(&ids);
}

/* Whole and streamed decoding; every piece of the stream must be well-formed by itself. */
static void check_decoding(const struct tokenizer *tokenizer, const char *text, size_t length,
                           const char *decoded, size_t decoded_length) {
    struct token_list ids = {0};
    struct string_buffer whole = {0};
    struct string_buffer streamed = {0};
    encode_into(tokenizer, text, length, true, &ids);
    assert_int_equal(tokenizer_decode(tokenizer, ids.ids, ids.count, false, &whole), STATUS_OK);
    assert_int_equal(whole.length, decoded_length);
    struct stream_decoder decoder;
    stream_decoder_init(&decoder, tokenizer, false);
    for (size_t i = 0; i < ids.count; i++) {
        size_t start = streamed.length;
        assert_int_equal(stream_decoder_feed(&decoder, ids.ids[i], &streamed), STATUS_OK);
        size_t added = streamed.length - start;
        if (added > 0) {
            assert_int_equal(utf8_valid_length(streamed.data + start, added), added);
        }
    }
    assert_int_equal(stream_decoder_finish(&decoder, &streamed), STATUS_OK);
    assert_int_equal(streamed.length, decoded_length);
    if (decoded_length > 0) {
        assert_memory_equal(whole.data, decoded, decoded_length);
        assert_memory_equal(streamed.data, decoded, decoded_length);
    }
    string_buffer_deinit(&streamed);
    string_buffer_deinit(&whole);
    token_list_deinit(&ids);
}

/* The tokens of single bytes, one after the other: the hardest case for a stream. */
static void check_byte_stream(const struct tokenizer *tokenizer, const int32_t byte_ids[256],
                              const char *text, size_t length) {
    struct string_buffer streamed = {0};
    struct stream_decoder decoder;
    stream_decoder_init(&decoder, tokenizer, false);
    for (size_t i = 0; i < length; i++) {
        int32_t id = byte_ids[(unsigned char)text[i]];
        assert_int_equal(stream_decoder_feed(&decoder, id, &streamed), STATUS_OK);
        /* a character is given out with its last byte */
        assert_int_equal(streamed.length, utf8_valid_length(text, i + 1));
    }
    assert_int_equal(stream_decoder_finish(&decoder, &streamed), STATUS_OK);
    assert_int_equal(streamed.length, length);
    if (length > 0) {
        assert_memory_equal(streamed.data, text, length);
    }
    string_buffer_deinit(&streamed);
}

static void check_recorded(const char *tokenizer_path, const char *encodings_path, size_t expected_count) {
    struct tokenizer *tokenizer = load_tokenizer(tokenizer_path);
    struct json *encodings = load_json(encodings_path);
    assert_int_equal(json_length(encodings), expected_count);
    int32_t byte_ids[256];
    struct token_list ids = {0};
    for (int byte = 0; byte < 256; byte++) {
        char text[1] = {(char)byte};
        encode_into(tokenizer, text, 1, false, &ids);
        assert_int_equal(ids.count, 1);
        byte_ids[byte] = ids.ids[0];
    }
    token_list_deinit(&ids);
    for (size_t i = 0; i < expected_count; i++) {
        const struct json *row = json_at(encodings, i);
        size_t length = 0;
        size_t decoded_length = 0;
        const char *text = json_text(json_get(row, "text"), &length);
        const char *decoded = json_text(json_get(row, "decoded"), &decoded_length);
        assert_non_null(text);
        assert_non_null(decoded);
        check_ids(tokenizer, text, length, json_get(row, "ids"));
        check_decoding(tokenizer, text, length, decoded, decoded_length);
        check_byte_stream(tokenizer, byte_ids, text, length);
        assert_round_trip(tokenizer, text, length, true);
        assert_round_trip(tokenizer, text, length, false);
    }
    json_free(&encodings);
    tokenizer_destroy(&tokenizer);
}

static void test_deepseek_v3(void **state) {
    (void)state;
    check_recorded(DEEPSEEK_V3_TOKENIZER, GOLDEN "deepseek-v3/encodings.json", 931);
}

static void test_mini_v4(void **state) {
    (void)state;
    check_recorded(MINI_V4_TOKENIZER, GOLDEN "mini-v4-encodings.json", 636);
}

static const uint64_t CHECKSUM_START = 0xCBF29CE484222325u;

static uint64_t add_number(uint64_t checksum, uint32_t number) {
    for (int i = 0; i < 4; i++) {
        checksum = (checksum ^ (number >> (8 * i) & 0xFF)) * 0x100000001B3u;
    }
    return checksum;
}

static uint64_t add_encoding(uint64_t checksum, const struct tokenizer *tokenizer, const char *text,
                             size_t length, struct token_list *ids) {
    encode_into(tokenizer, text, length, true, ids);
    checksum = add_number(checksum, (uint32_t)ids->count);
    for (size_t i = 0; i < ids->count; i++) {
        checksum = add_number(checksum, (uint32_t)ids->ids[i]);
    }
    return checksum;
}

static void assert_checksum(uint64_t checksum, const struct json *row) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)checksum);
    assert_string_equal(text, json_text(json_get(row, "checksum"), NULL));
}

/* B116: runs of every length, among them up to 4096 carets. */
static void test_runs(void **state) {
    (void)state;
    struct json *file = load_json(GOLDEN "checksums.json");
    const struct json *runs = json_get(file, "runs");
    assert_int_equal(json_length(runs), 12);
    struct tokenizer *deepseek_v3 = load_tokenizer(DEEPSEEK_V3_TOKENIZER);
    struct tokenizer *mini_v4 = load_tokenizer(MINI_V4_TOKENIZER);
    struct token_list ids = {0};
    for (size_t i = 0; i < json_length(runs); i++) {
        const struct json *row = json_at(runs, i);
        bool is_mini = strcmp(json_text(json_get(row, "tokenizer"), NULL), "mini-v4") == 0;
        const char *unit = json_text(json_get(row, "unit"), NULL);
        size_t count = (size_t)json_int64(json_get(row, "count"));
        size_t length = 0;
        char *text = repeat_text(unit, count, &length);
        uint64_t checksum = CHECKSUM_START;
        for (size_t n = 1; n <= count; n++) {
            checksum = add_encoding(checksum, is_mini ? mini_v4 : deepseek_v3, text, n * strlen(unit), &ids);
        }
        assert_checksum(checksum, row);
        free(text);
    }
    token_list_deinit(&ids);
    tokenizer_destroy(&mini_v4);
    tokenizer_destroy(&deepseek_v3);
    json_free(&file);
}

/* Every character between letters, after blanks and among digits: its category decides the pieces. */
static void test_every_character(void **state) {
    (void)state;
    struct json *file = load_json(GOLDEN "checksums.json");
    const struct json *ranges = json_get(file, "characters");
    assert_int_equal(json_length(ranges), 5);
    struct tokenizer *tokenizer = load_tokenizer(DEEPSEEK_V3_TOKENIZER);
    struct token_list ids = {0};
    for (size_t i = 0; i < json_length(ranges); i++) {
        const struct json *row = json_at(ranges, i);
        uint64_t checksum = CHECKSUM_START;
        uint32_t end = (uint32_t)json_int64(json_get(row, "end"));
        for (uint32_t c = (uint32_t)json_int64(json_get(row, "first")); c < end; c++) {
            char character[UTF8_CHARACTER_BYTES_MAX];
            size_t size = utf8_encode(c, character);
            static const char pattern[] = "aCb CC  C1.C";
            char text[sizeof pattern * UTF8_CHARACTER_BYTES_MAX];
            size_t length = 0;
            for (const char *p = pattern; *p != '\0'; p++) {
                memcpy(text + length, *p == 'C' ? character : p, *p == 'C' ? size : 1);
                length += *p == 'C' ? size : 1;
            }
            checksum = add_encoding(checksum, tokenizer, text, length, &ids);
        }
        assert_checksum(checksum, row);
    }
    token_list_deinit(&ids);
    tokenizer_destroy(&tokenizer);
    json_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deepseek_v3),
        cmocka_unit_test(test_mini_v4),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_every_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
