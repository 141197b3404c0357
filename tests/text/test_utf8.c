/* UTF-8 by the tables of the Unicode standard, and the byte alphabet by its definition in GPT-2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

static void assert_lossy(const char *bytes, size_t length, const char *expected) {
    struct string_buffer out = {0};
    utf8_append_lossy(&out, bytes, length);
    assert_string_equal(string_buffer_text(&out), expected);
    string_buffer_deinit(&out);
}

#define R UTF8_REPLACEMENT

/* Unicode 15.0, tables 3-8 to 3-11. */
static void test_replacement_of_ill_formed_text(void **state) {
    (void)state;
    assert_lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 9, R R R R R R R R "A");
    assert_lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 9, R R R R R R R R "A");
    assert_lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 9, R R R R R "A" R R "B");
    assert_lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 9, R R R R "A");
    assert_lossy("\xE4\xBD", 2, R);
    assert_lossy("a\xF0\x9F\x98", 4, "a" R);
    assert_lossy("", 0, "");
    assert_lossy("é你😀", strlen("é你😀"), "é你😀");
}

static void test_valid_length(void **state) {
    (void)state;
    assert_int_equal(utf8_valid_length("é你😀", 9), 9);
    assert_int_equal(utf8_valid_length("é你😀", 8), 5);
    assert_int_equal(utf8_valid_length("a\xC0", 2), 1);
    assert_int_equal(utf8_valid_length("a\0b", 3), 3);
    assert_int_equal(utf8_valid_length("", 0), 0);
}

/* Each scalar value has one encoding, and no other number has any. */
static void test_every_code_point(void **state) {
    (void)state;
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        char bytes[UTF8_CHARACTER_BYTES_MAX];
        size_t length = utf8_encode(code_point, bytes);
        struct utf8_step step = utf8_next(bytes, length);
        if (code_point >= 0xD800 && code_point < 0xE000) {
            assert_int_equal(step.kind, UTF8_INVALID);
            continue;
        }
        assert_int_equal(step.kind, UTF8_CHARACTER);
        assert_int_equal(step.code_point, code_point);
        assert_int_equal(step.length, length);
        if (length > 1) {
            step = utf8_next(bytes, length - 1);
            assert_int_equal(step.kind, UTF8_INCOMPLETE);
            assert_int_equal(step.length, length - 1);
        }
    }
    char bytes[UTF8_CHARACTER_BYTES_MAX];
    assert_int_equal(utf8_encode(0x20AC, bytes), 3);
    assert_memory_equal(bytes, "\xE2\x82\xAC", 3);
}

static void test_byte_alphabet(void **state) {
    (void)state;
    uint32_t stand_in = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        uint32_t expected = is_itself ? (uint32_t)byte : stand_in++;
        assert_int_equal(byte_alphabet_character((unsigned char)byte), expected);
        assert_int_equal(byte_alphabet_byte(expected), byte);
    }
    assert_int_equal(byte_alphabet_byte(' '), -1);
    assert_int_equal(byte_alphabet_byte(0xAD), -1);
    assert_int_equal(byte_alphabet_byte(0x144), -1);
    assert_int_equal(byte_alphabet_byte(0xFF5C), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replacement_of_ill_formed_text),
        cmocka_unit_test(test_valid_length),
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_byte_alphabet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
