/* Stop strings against a plain search of the whole text, however it is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/stop_text.h"

enum { STOPS_MAX = 4 };

/* The text up to the first stop string to be complete, the longest of several: byte by byte, by comparison.
 */
static size_t plain_end(const char *text, const struct stop_string *stops, size_t count, bool *is_stopped) {
    size_t length = strlen(text);
    *is_stopped = false;
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < count; i++) {
            if (stops[i].length <= end &&
                memcmp(text + end - stops[i].length, stops[i].bytes, stops[i].length) == 0 &&
                stops[i].length > longest) {
                longest = stops[i].length;
            }
        }
        if (longest > 0) {
            *is_stopped = true;
            return end - longest;
        }
    }
    return length;
}

static void assert_stops(const char *text, const struct stop_string *stops, size_t count) {
    bool is_stopped;
    size_t length = strlen(text);
    size_t end = plain_end(text, stops, count, &is_stopped);
    for (size_t piece = 1; piece <= length; piece++) {
        struct stop_text stop;
        struct string_buffer out = {0};
        assert_int_equal(stop_text_init(&stop, stops, count), STATUS_OK);
        for (size_t at = 0; at < length; at += piece) {
            stop_text_push(&stop, text + at, at + piece < length ? piece : length - at, &out);
            /* Never more than the answer, and everything that cannot become a stop string. */
            assert_true(out.length <= end);
        }
        assert_int_equal(stop.is_stopped, is_stopped);
        if (!is_stopped) {
            stop_text_finish(&stop, &out);
        }
        stop_text_push(&stop, "", 0, &out);
        assert_int_equal(out.length, end);
        assert_memory_equal(string_buffer_text(&out), text, end);
        assert_int_equal(string_buffer_check(&out), STATUS_OK);
        string_buffer_deinit(&out);
        stop_text_deinit(&stop);
    }
}

static struct stop_string of(const char *text) {
    return (struct stop_string){text, strlen(text)};
}

static void test_examples(void **state) {
    (void)state;
    assert_stops("red green blue", (struct stop_string[]){of("een bl")}, 1);
    assert_stops("red green blue", (struct stop_string[]){of("een blx")}, 1);
    assert_stops("aaaaaab", (struct stop_string[]){of("aaab")}, 1);
    assert_stops("xabcabcabd", (struct stop_string[]){of("abcabd"), of("abd")}, 2);
    /* One that is complete inside another that has only begun. */
    assert_stops("abc", (struct stop_string[]){of("abcd"), of("bc")}, 2);
    assert_stops("ab", (struct stop_string[]){of("b"), of("ab")}, 2);
    assert_stops("é世é", (struct stop_string[]){of("世é")}, 1);
    assert_stops("nothing", NULL, 0);
}

/* Two letters and short strings meet every overlap. */
static void test_random(void **state) {
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 3000; round++) {
        char text[25];
        char strings[STOPS_MAX][8];
        struct stop_string stops[STOPS_MAX];
        size_t count = 1 + (size_t)round % STOPS_MAX;
        for (size_t i = 0; i < sizeof text - 1; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = (char)('a' + (random >> 30) % 2);
        }
        text[sizeof text - 1] = '\0';
        for (size_t i = 0; i < count; i++) {
            random = random * 1664525u + 1013904223u;
            size_t length = 3 + (random >> 24) % 4;
            for (size_t k = 0; k < length; k++) {
                random = random * 1664525u + 1013904223u;
                strings[i][k] = (char)('a' + (random >> 30) % 2);
            }
            stops[i] = (struct stop_string){strings[i], length};
        }
        assert_stops(text, stops, count);
    }
}

/* What is held is released where text of another kind follows, and nothing of it counts afterwards. */
static void test_finish_forgets(void **state) {
    (void)state;
    struct stop_string string = of("abc");
    struct stop_text stop;
    struct string_buffer out = {0};
    assert_int_equal(stop_text_init(&stop, &string, 1), STATUS_OK);
    stop_text_push(&stop, "xab", 3, &out);
    assert_string_equal(out.data, "x");
    stop_text_finish(&stop, &out);
    stop_text_push(&stop, "c", 1, &out);
    assert_string_equal(out.data, "xabc");
    assert_false(stop.is_stopped);
    string_buffer_deinit(&out);
    stop_text_deinit(&stop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_finish_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
