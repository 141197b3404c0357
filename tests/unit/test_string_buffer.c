/* String buffers: growth, bytes with NULs, dropping, remembered failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <string.h>

#include "base/string_buffer.h"

static void test_empty_buffer_is_text(void **state) {
    (void)state;
    struct string_buffer buffer = {0};
    assert_string_equal(string_buffer_text(&buffer), "");
    string_buffer_drop_front(&buffer, 5);
    string_buffer_clear(&buffer);
    assert_int_equal(string_buffer_check(&buffer), STATUS_OK);
    string_buffer_deinit(&buffer);
}

static void test_appends_join(void **state) {
    (void)state;
    struct string_buffer buffer = {0};
    string_buffer_append_text(&buffer, "ab");
    string_buffer_append_char(&buffer, 'c');
    string_buffer_append_format(&buffer, "%d-%s", 12, "x");
    string_buffer_append(&buffer, "\0z", 2);
    assert_int_equal(buffer.length, 9);
    assert_memory_equal(buffer.data, "abc12-x\0z", 10);
    string_buffer_deinit(&buffer);
    assert_int_equal(buffer.length, 0);
}

static void test_grows_over_many_appends(void **state) {
    (void)state;
    struct string_buffer buffer = {0};
    for (int i = 0; i < 10000; i++) {
        string_buffer_append_format(&buffer, "%04d", i);
    }
    assert_int_equal(string_buffer_check(&buffer), STATUS_OK);
    assert_int_equal(buffer.length, 40000);
    assert_memory_equal(buffer.data + 4 * 1234, "1234", 4);
    assert_int_equal(strlen(buffer.data), 40000);
    string_buffer_deinit(&buffer);
}

static void test_drop_front(void **state) {
    (void)state;
    struct string_buffer buffer = {0};
    string_buffer_append_text(&buffer, "abcdef");
    string_buffer_drop_front(&buffer, 2);
    assert_string_equal(string_buffer_text(&buffer), "cdef");
    string_buffer_drop_front(&buffer, 100);
    assert_string_equal(string_buffer_text(&buffer), "");
    assert_int_equal(buffer.length, 0);
    string_buffer_append_text(&buffer, "g");
    assert_string_equal(string_buffer_text(&buffer), "g");
    string_buffer_deinit(&buffer);
}

static void test_drop_back(void **state) {
    (void)state;
    struct string_buffer buffer = {0};
    string_buffer_drop_back(&buffer, 1);
    assert_string_equal(string_buffer_text(&buffer), "");
    string_buffer_append_text(&buffer, "abcdef");
    string_buffer_drop_back(&buffer, 2);
    assert_string_equal(string_buffer_text(&buffer), "abcd");
    string_buffer_append_text(&buffer, "g");
    assert_string_equal(string_buffer_text(&buffer), "abcdg");
    string_buffer_drop_back(&buffer, 100);
    assert_string_equal(string_buffer_text(&buffer), "");
    assert_int_equal(buffer.length, 0);
    string_buffer_deinit(&buffer);
}

static void test_failure_is_remembered(void **state) {
    (void)state;
    struct string_buffer buffer = {0};
    string_buffer_append_text(&buffer, "kept");
    /* More than any buffer may hold: refused before a byte is read. */
    string_buffer_append(&buffer, "x", SIZE_MAX / 2);
    string_buffer_append_text(&buffer, "later");
    assert_int_equal(string_buffer_check(&buffer), STATUS_OUT_OF_MEMORY);
    assert_string_equal(string_buffer_text(&buffer), "kept");
    string_buffer_clear(&buffer);
    string_buffer_append_text(&buffer, "again");
    assert_int_equal(string_buffer_check(&buffer), STATUS_OK);
    assert_string_equal(string_buffer_text(&buffer), "again");
    string_buffer_deinit(&buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_buffer_is_text),
        cmocka_unit_test(test_appends_join),
        cmocka_unit_test(test_grows_over_many_appends),
        cmocka_unit_test(test_drop_front),
        cmocka_unit_test(test_drop_back),
        cmocka_unit_test(test_failure_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
