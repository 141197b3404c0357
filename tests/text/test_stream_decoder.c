/* Ill-formed bytes in a stream: they never stall it, and its pieces make the replaced whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "text/stream_decoder.h"
#include "text/tokenizer_fixture.h"

static struct tokenizer *tokenizer;
static int32_t byte_ids[256];

static int set_up(void **state) {
    (void)state;
    tokenizer = load_tokenizer(MINI_V4_TOKENIZER);
    struct token_list ids = {0};
    for (int byte = 0; byte < 256; byte++) {
        char text[1] = {(char)byte};
        encode_into(tokenizer, text, 1, false, &ids);
        byte_ids[byte] = ids.ids[0];
    }
    token_list_deinit(&ids);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tokenizer_destroy(&tokenizer);
    return 0;
}

/* Feeds one byte and asserts what comes out at once. */
static void assert_feed(struct stream_decoder *decoder, int byte, const char *expected) {
    struct string_buffer out = {0};
    assert_int_equal(stream_decoder_feed(decoder, byte_ids[byte], &out), STATUS_OK);
    assert_string_equal(string_buffer_text(&out), expected);
    string_buffer_deinit(&out);
}

static void assert_finish(struct stream_decoder *decoder, const char *expected) {
    struct string_buffer out = {0};
    assert_int_equal(stream_decoder_finish(decoder, &out), STATUS_OK);
    assert_string_equal(string_buffer_text(&out), expected);
    string_buffer_deinit(&out);
}

#define R UTF8_REPLACEMENT

static void test_faults_come_out_at_once(void **state) {
    (void)state;
    struct stream_decoder decoder;
    stream_decoder_init(&decoder, tokenizer, false);
    assert_feed(&decoder, 0xF0, "");
    assert_feed(&decoder, 0x9F, "");
    assert_feed(&decoder, 0x98, "");
    assert_feed(&decoder, 0x80, "😀");
    assert_feed(&decoder, 0xFF, R);
    assert_feed(&decoder, 0x80, R);
    assert_feed(&decoder, 0xE4, "");
    assert_feed(&decoder, 'a', R "a");
    assert_feed(&decoder, 0xED, "");
    assert_feed(&decoder, 0xA0, R R);
    assert_feed(&decoder, 0xE4, "");
    assert_feed(&decoder, 0xC3, R);
    assert_feed(&decoder, 0xA9, "é");
    assert_finish(&decoder, "");
    assert_feed(&decoder, 0xF0, "");
    assert_feed(&decoder, 0x9F, "");
    assert_finish(&decoder, R);
    assert_feed(&decoder, 'z', "z");
}

static void test_special_and_unknown_tokens(void **state) {
    (void)state;
    struct stream_decoder decoder;
    struct string_buffer out = {0};
    stream_decoder_init(&decoder, tokenizer, true);
    assert_int_equal(stream_decoder_feed(&decoder, 0, &out), STATUS_OK);
    assert_int_equal(stream_decoder_feed(&decoder, 4082, &out), STATUS_OK);
    assert_int_equal(stream_decoder_feed(&decoder, 4096, &out), STATUS_OUT_OF_RANGE);
    assert_string_equal(out.data, "</think>");
    stream_decoder_init(&decoder, tokenizer, false);
    assert_int_equal(stream_decoder_feed(&decoder, 0, &out), STATUS_OK);
    assert_string_equal(out.data, "</think><｜begin▁of▁sentence｜>");
    string_buffer_deinit(&out);
}

/* Random tokens, so random bytes: pieces are well-formed and join to the replaced whole. */
static void test_random_tokens(void **state) {
    (void)state;
    uint32_t noise = 7;
    for (int round = 0; round < 500; round++) {
        struct stream_decoder decoder;
        struct string_buffer whole = {0};
        struct string_buffer expected = {0};
        struct string_buffer streamed = {0};
        stream_decoder_init(&decoder, tokenizer, false);
        for (int i = 0; i < 40; i++) {
            noise = noise * 1664525u + 1013904223u;
            /* every other token is a single byte of 0x80..0xFF */
            int32_t id = i % 2 == 0 ? (int32_t)(noise >> 16) % 4096 : byte_ids[0x80 | noise >> 24];
            assert_int_equal(tokenizer_decode(tokenizer, &id, 1, false, &whole), STATUS_OK);
            size_t start = streamed.length;
            assert_int_equal(stream_decoder_feed(&decoder, id, &streamed), STATUS_OK);
            size_t added = streamed.length - start;
            assert_int_equal(utf8_valid_length(string_buffer_text(&streamed) + start, added), added);
        }
        assert_int_equal(stream_decoder_finish(&decoder, &streamed), STATUS_OK);
        utf8_append_lossy(&expected, whole.data, whole.length);
        assert_int_equal(streamed.length, expected.length);
        assert_memory_equal(streamed.data, expected.data, expected.length);
        string_buffer_deinit(&streamed);
        string_buffer_deinit(&expected);
        string_buffer_deinit(&whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_come_out_at_once),
        cmocka_unit_test(test_special_and_unknown_tokens),
        cmocka_unit_test(test_random_tokens),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
